// Exchanges of rows (abi/moe.h) in checks.
#ifndef DISTWRAP_TESTS_CONFORMANCE_RUN_ROWS_H_
#define DISTWRAP_TESTS_CONFORMANCE_RUN_ROWS_H_

#include "team.h"

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::conformance {

// The operation whose rows `rows` lists, with counts in bytes by rank.
dw_op rows_op(const dw_ext* rows, const std::vector<int64_t>& in_counts,
              const std::vector<int64_t>& out_counts, uint64_t seq);

// Runs an operation to its end, in the call where `work` is null. DW_DONE, or
// the error.
int32_t run_rows(Member& member, dw_op op, dw_work* work, dw_error* error);

// Runs an exchange of a shape, in the call and without waiting, and compares
// what came. `what` names it.
template <class Exchange, class Shape>
void run_exchange(Member& member, const Shape& shape, uint64_t seed,
                  const std::string& what) {
  for (const bool waits : {true, false}) {
    Exchange exchange(shape, member.rank, member.size, seed);
    const dw_op op = exchange.op(member.next_seq++);
    dw_work work;
    dw_error error = {};
    const int32_t code = run_rows(member, op, waits ? nullptr : &work, &error);
    const std::string wrong = code == DW_DONE
                                  ? exchange.wrong(true)
                                  : "rows: " + error_text(code, error);
    if (!wrong.empty())
      member.find(what + (waits ? ": " : ", asynchronous: ") + wrong);
  }
}

// An exchange with one mistake is refused, and nothing is touched.
template <class Exchange, class Shape>
void refuse_exchange(Member& member, const Shape& shape, int32_t want,
                     const std::string& what,
                     void (*spoil)(Exchange&, dw_op&)) {
  Exchange exchange(shape, member.rank, member.size, 1);
  dw_op op = exchange.op(member.next_seq);
  spoil(exchange, op);
  dw_work work;
  for (dw_work* const cell : {static_cast<dw_work*>(nullptr), &work}) {
    dw_error error = {};
    const int32_t code = run_rows(member, op, cell, &error);
    if (code != want)
      member.find(what + ": want code " + std::to_string(want) + ", got " +
                  error_text(code, error));
  }
  if (const std::string wrong = exchange.wrong(false); !wrong.empty())
    member.find(what + ": " + wrong);
}

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_RUN_ROWS_H_
