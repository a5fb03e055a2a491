// The operations that are measured, under the names of all public interfaces.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_OPERATION_H_
#define DISTWRAP_TOOLS_CLI_BENCH_OPERATION_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace distwrap::bench {

enum class Operation {
  kBarrier,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kAllToAll,
  kSendRecv,
};

// In the order in which "all" measures them.
const std::vector<Operation>& all_operations();

absl::string_view operation_name(Operation op);

// The error names the nearest that exists.
absl::StatusOr<Operation> parse_operation(absl::string_view name);

// Whether other programs that print the same JSON lines measure an operation
// of this name, and this one does not.
bool measured_elsewhere(absl::string_view name);

// It takes a reduction.
bool reduces(Operation op);

// busbw / algbw: the share of the bytes that has to cross the busiest link, so
// that one number can be held against the speed of that link.
double bus_factor(Operation op, int ranks);

// The closest of `known` to a mistyped `name`.
std::string nearest(absl::string_view name,
                    const std::vector<std::string>& known);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_OPERATION_H_
