#include "checks.h"

#include <climits>

namespace distwrap::conformance {

std::vector<Check> all_checks() {
  constexpr int kAny = INT_MAX;
  return {{"Open", check_open, 1},
          {"Promises", check_promises, 2},
          {"Calls", check_calls, kAny},
          {"Rows", check_rows, kAny},
          {"RowSums", check_row_sums, 3},
          {"Pairs", check_pairs, 4},
          {"OpenWorks", check_open_works, 2},
          {"ManyCommunicators", check_many_communicators, 3},
          {"UnderWay", check_under_way, 3},
          {"Prepared", check_prepared, 4},
          {"PreparedAbort", check_prepared_abort, 2},
          {"Queued", check_queued, 3},
          {"Blocks", check_blocks, 5},
          {"Refusals", check_refusals, 2},
          {"Growth", check_growth, 2},
          {"BadBlobs", check_bad_blobs, 3},
          {"CancelledSetups", check_cancelled_setups, 3},
          {"Messages", check_messages, 5},
          {"Tags", check_tags, 5},
          {"OwnMessages", check_own_messages, 2},
          {"OpenReceives", check_open_receives, 3},
          {"Subsets", check_subsets, 5},
          {"DifferingMessages", check_differing_messages, 3},
          {"Groups", check_groups, kAny},
          {"Abort", check_abort, 3},
          {"AbortInTransfer", check_abort_in_transfer, 3},
          {"Close", check_close, 3}};
}

}  // namespace distwrap::conformance
