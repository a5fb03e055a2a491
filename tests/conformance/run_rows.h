// Exchanges of rows (abi/moe.h) in checks.
#ifndef DISTWRAP_TESTS_CONFORMANCE_RUN_ROWS_H_
#define DISTWRAP_TESTS_CONFORMANCE_RUN_ROWS_H_

#include "team.h"

#include <cstdint>
#include <vector>

namespace distwrap::conformance {

// The operation whose rows `rows` lists, with counts in bytes by rank.
dw_op rows_op(const dw_ext* rows, const std::vector<int64_t>& in_counts,
              const std::vector<int64_t>& out_counts, uint64_t seq);

// Runs an operation to its end, in the call where `work` is null. DW_DONE, or
// the error.
int32_t run_rows(Member& member, dw_op op, dw_work* work, dw_error* error);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_RUN_ROWS_H_
