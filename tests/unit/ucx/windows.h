// Windows between ranks that are processes over ucx.
#ifndef DISTWRAP_TESTS_UNIT_UCX_WINDOWS_H_
#define DISTWRAP_TESTS_UNIT_UCX_WINDOWS_H_

#include "messages.h"

namespace distwrap::ucx_test {

// Numbers of 64 bits; ranks have parts of different sizes, in memory of the
// backend. In every call the caller waits, for a minute at most.
class Numbers {
 public:
  // Rank r has room for `least` + r numbers.
  Numbers(Rank& rank, int64_t least);
  bool ok() const { return window_ != nullptr && part_ != nullptr; }
  const uint64_t* part() const { return part_; }

  using Values = std::vector<uint64_t>;
  // Writes from number `at` of a target on; with a signal, slot 0 is `value`
  // afterwards.
  int32_t put(int target, int64_t at, const Values& values, dw_error* error);
  int32_t put_signal(int target, int64_t at, const Values& values,
                     uint64_t value, dw_error* error);
  int32_t get(int target, int64_t at, Values& values, dw_error* error);
  int32_t add(int target, int64_t at, uint64_t operand, uint64_t* before,
              dw_error* error);
  int32_t flush(int target, dw_error* error);
  // Waits until slot 0 is at least `value`.
  int32_t wait_signal(uint64_t value, dw_error* error);
  int32_t end(dw_error* error);

 private:
  dw_op op_of(uint16_t kind, int target, int64_t at) const;
  int32_t run(dw_op op, dw_error* error);

  Rank& rank_;
  dw_window* window_ = nullptr;
  uint64_t* part_ = nullptr;
};

// Rounds in which every rank puts to the next one, with several sizes; 0 when
// every number is right.
int write_around(Rank& rank);

}  // namespace distwrap::ucx_test

#endif  // DISTWRAP_TESTS_UNIT_UCX_WINDOWS_H_
