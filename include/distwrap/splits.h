// The number of rows for each rank of a group, for calls that can also do
// without.
//
// Threads: a value. Ownership: the list is borrowed for the call.
//
//   distwrap::all_to_all_single(out, in, {}, {3, 1});
#ifndef DISTWRAP_SPLITS_H_
#define DISTWRAP_SPLITS_H_

#include <absl/types/span.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace distwrap {

class Splits {
 public:
  // Unset. An empty list is different: it fits no group.
  constexpr Splits() = default;
  constexpr Splits(absl::Span<const int64_t> rows)
      : is_set_(true), rows_(rows) {}
  Splits(const std::vector<int64_t>& rows)
      : Splits(absl::Span<const int64_t>(rows)) {}
  Splits(std::initializer_list<int64_t> rows)
      : Splits(absl::Span<const int64_t>(rows)) {}

  constexpr bool is_set() const { return is_set_; }
  constexpr absl::Span<const int64_t> rows() const { return rows_; }

 private:
  bool is_set_ = false;
  absl::Span<const int64_t> rows_;
};

}  // namespace distwrap

#endif  // DISTWRAP_SPLITS_H_
