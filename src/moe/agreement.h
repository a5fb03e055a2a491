// Steps in which all ranks of a call learn of each other's faults, so that the
// call fails on all of them before any output is written.
//
// Threads: one. Ownership: borrows the exchange.
#ifndef DISTWRAP_SRC_MOE_AGREEMENT_H_
#define DISTWRAP_SRC_MOE_AGREEMENT_H_

#include "distwrap/status.h"
#include "moe/exchange.h"

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace distwrap::moe {

// The first fault that a rank finds in its own call.
class Fault {
 public:
  // The first one counts.
  void set(ErrorInfo info) {
    if (!info_.has_value()) info_ = std::move(info);
  }
  void set(Reason reason, std::string what) {
    set({.reason = reason, .what = std::move(what)});
  }
  bool found() const { return info_.has_value(); }
  const ErrorInfo& info() const { return *info_; }

 private:
  std::optional<ErrorInfo> info_;
};

class Agreement {
 public:
  explicit Agreement(const Exchange& exchange) : exchange_(exchange) {}

  // Gives each rank its item of `given` (R), and gets one from each into `got`.
  // An error on all ranks if one of them has found a fault: the lowest one.
  template <class T>
  absl::Status tell(const Fault& fault, absl::Span<const T> given,
                    std::vector<T>* got) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t ranks = given.size();
    std::vector<uint8_t> items(ranks * sizeof(T));
    if (ranks > 0) memcpy(items.data(), given.data(), items.size());
    std::vector<uint8_t> all;
    if (absl::Status status = tell_bytes(fault, sizeof(T), items, &all);
        !status.ok())
      return status;
    got->resize(ranks);
    if (ranks > 0) memcpy(got->data(), all.data(), all.size());
    return absl::OkStatus();
  }
  // Without items.
  absl::Status tell(const Fault& fault) const {
    return tell_bytes(fault, 0, {}, nullptr);
  }

 private:
  absl::Status tell_bytes(const Fault& fault, size_t item_bytes,
                          const std::vector<uint8_t>& items,
                          std::vector<uint8_t>* got) const;

  const Exchange& exchange_;
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_AGREEMENT_H_
