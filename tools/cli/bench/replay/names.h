// Names in recordings and traces, as values.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_REPLAY_NAMES_H_
#define DISTWRAP_TOOLS_CLI_BENCH_REPLAY_NAMES_H_

#include "distwrap/reduce_op.h"
#include "distwrap/types.h"

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>

namespace distwrap::bench {

// "all_reduce": of the operations that can be replayed.
std::optional<uint16_t> kind_of(absl::string_view name);
// "f32".
std::optional<DType> dtype_of_name(absl::string_view name);
// "sum"; not of premul_sum, whose factor nobody wrote down.
std::optional<ReduceOp::Kind> reduction_of(absl::string_view name);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_REPLAY_NAMES_H_
