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
  // On windows, to the next rank or from the one before; win_signal: with the
  // partner.
  kWinPut,
  kWinPutRate,
  kWinGet,
  kWinFetchAdd,
  kWinSignal,
};

// In the order in which "all" measures them.
const std::vector<Operation>& all_operations();

absl::string_view operation_name(Operation op);
// As other programs that print the same JSON lines call it.
absl::string_view protocol_name(Operation op);

// Either name, or another that is common for it. The error names the nearest
// that exists.
absl::StatusOr<Operation> parse_operation(absl::string_view name);

// Whether other programs that print the same JSON lines measure an operation
// of this name, and this one does not.
bool measured_elsewhere(absl::string_view name);

// It takes a reduction, a root, counts of each rank.
bool reduces(Operation op);
bool has_root(Operation op);
bool has_counts(Operation op);
bool on_window(Operation op);
// Puts of one win_put_rate before it flushes, at most.
inline constexpr int kMostDepth = 64;

// busbw / algbw where every rank's part is equal: the share of the bytes that
// has to cross the busiest link, so that one number can be held against the
// speed of that link. Where they are not, the share that does: see Layout.
double bus_factor(Operation op, int ranks);

using base::nearest;

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_OPERATION_H_
