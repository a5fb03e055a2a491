#include "checks.h"

namespace distwrap::conformance {

std::vector<Check> all_checks() {
  return {{"Open", check_open},
          {"WaitingCalls", check_waiting_calls},
          {"AsyncCalls", check_async_calls},
          {"ManyCommunicators", check_many_communicators},
          {"Refusals", check_refusals},
          {"Growth", check_growth},
          {"BadBlobs", check_bad_blobs},
          {"CancelledSetups", check_cancelled_setups},
          {"Messages", check_messages},
          {"OpenReceives", check_open_receives},
          {"Abort", check_abort},
          {"AbortInTransfer", check_abort_in_transfer}};
}

}  // namespace distwrap::conformance
