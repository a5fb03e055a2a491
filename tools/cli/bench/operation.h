// The operations that `distwrap bench` measures.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_OPERATION_H_
#define DISTWRAP_TOOLS_CLI_BENCH_OPERATION_H_

#include "base/nearest.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace distwrap::bench {

enum class Operation {
  kBarrier,
  kBroadcast,
  kReduce,
  kAllReduce,
  kGather,
  kScatter,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGatherV,
  kScatterV,
  kAllGatherV,
  kReduceScatterV,
  kAllToAllV,
  kScan,
  kExscan,
  kSendRecv,
  kRing,
  // Operations on windows go to the next rank or come from the previous one;
  // win_signal goes to the partner.
  kWinPut,
  kWinPutRate,
  kWinGet,
  kWinFetchAdd,
  kWinSignal,
};

// The order in which "all" measures them.
const std::vector<Operation>& all_operations();

absl::string_view operation_name(Operation op);
// The name that other programs with the same JSON lines use.
absl::string_view protocol_name(Operation op);

// Accepts all common names of an operation. The error suggests the nearest
// known name.
absl::StatusOr<Operation> parse_operation(absl::string_view name);

// Whether other programs with the same JSON lines measure an operation of this
// name that this program lacks.
bool measured_elsewhere(absl::string_view name);

// Whether the operation takes a reduction, a root, or counts for each rank.
bool reduces(Operation op);
bool has_root(Operation op);
bool has_counts(Operation op);
bool on_window(Operation op);
// The largest number of puts in win_put_rate before a flush.
inline constexpr int kMostDepth = 64;

// busbw / algbw when all ranks have equal parts: the share of the bytes that
// crosses the busiest link, so that the result can be compared with the speed
// of the link. For unequal parts see bus_bytes.
double bus_factor(Operation op, int ranks);

using base::nearest;

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_OPERATION_H_
