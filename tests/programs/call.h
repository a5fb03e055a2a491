// One operation of a program on one rank: buffers, expected results, checks.
#ifndef DISTWRAP_TESTS_PROGRAMS_CALL_H_
#define DISTWRAP_TESTS_PROGRAMS_CALL_H_

#include "distwrap/distwrap.h"
#include "program.h"

#include <string>
#include <vector>

namespace distwrap::programs {

// Elements of one type in adjacent pieces of memory.
class Pieces {
 public:
  Pieces(DType dtype, std::vector<int64_t> counts);

  void set(int piece, int64_t i, int64_t value);
  TensorView view() const;
  TensorView view(int piece) const;
  std::vector<TensorView> views() const;
  const std::vector<int64_t>& counts() const { return counts_; }
  friend bool operator==(const Pieces&, const Pieces&) = default;

 private:
  DType dtype_;
  std::vector<int64_t> counts_, begins_;
  std::vector<unsigned char> bytes_;
};

class Call {
 public:
  // `members`: global ranks of the group.
  Call(const Operation& operation, const std::vector<int>& members, int me);

  // The next two return "" or the first mistake.
  std::string start(const Group& group);
  std::string finish();
  bool ended() const;

 private:
  int64_t value(int from, int to, int64_t i) const;
  // The expected reduction over ranks `first` to `last` for `to`.
  int64_t reduced(int first, int last, int to, int64_t i) const;
  void prepare();
  absl::Status run(const OpOptions& options);
  absl::Status run_messages(const OpOptions& options);

  const Operation operation_;
  const std::vector<int> members_;
  const int me_, size_;
  Pieces in_, out_, given_, wanted_;
  std::vector<Work> works_;
};

}  // namespace distwrap::programs

#endif  // DISTWRAP_TESTS_PROGRAMS_CALL_H_
