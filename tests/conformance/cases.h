// One collective call: what goes in, what must come out.
#ifndef DISTWRAP_TESTS_CONFORMANCE_CASES_H_
#define DISTWRAP_TESTS_CONFORMANCE_CASES_H_

#include "data.h"
#include "team.h"

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::conformance {

struct Case {
  uint16_t kind = 0;
  int dtype = DW_DTYPE_F32;
  uint16_t reduce = DW_REDUCE_NONE;
  size_t count = 0;  // elements per rank, the n of ops.def
  int root = -1;
  bool in_place = false;

  std::string name() const;
};

struct Promises {
  const dw_caps_row* rows = nullptr;
  uint64_t n = 0;

  bool has_kind(uint16_t kind) const;
  // Host memory, without other flags than *in place* and *caller waits*.
  bool has(uint16_t kind, int dtype, uint16_t reduce) const;
};
// Empty, with a finding, when `caps` fails.
Promises promises_of(const Member& member);

// The collectives that are promised, over sizes, roots and in place. Of the
// large sizes every n-th, which ones the seed says. Messages have checks of
// their own.
std::vector<Case> promised_cases(const Promises& promises, int size,
                                 uint64_t seed);

// Buffers and op of one rank's call.
class Call {
 public:
  Call(const Case& c, int rank, int size);

  dw_op op();
  // What is wrong after a call that worked; "" when all is right.
  std::string wrong_result() const;
  // Likewise after one that was refused: nothing may have changed.
  std::string wrong_refusal() const;

 private:
  bool shares_output() const;  // in place, the input lies within the output
  bool shares_input() const;   // the other way round
  std::string strangers() const;

  const Case case_;
  const size_t element_;
  const size_t in_count_, out_count_;  // elements; 0 without such a buffer
  GuardedBytes in_, out_;
  char* in_data_ = nullptr;
  char* out_data_ = nullptr;
  std::string in_before_, out_before_, expected_;
};

// Makes the call and checks it, waiting for its completion when it is
// asynchronous. All ranks of the member's team make it.
void make_call(Member& member, const Case& c, bool caller_waits);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_CASES_H_
