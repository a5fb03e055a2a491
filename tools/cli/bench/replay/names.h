// Translates the names in recordings and traces into values.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_REPLAY_NAMES_H_
#define DISTWRAP_TOOLS_CLI_BENCH_REPLAY_NAMES_H_

#include "distwrap/reduce_op.h"
#include "distwrap/types.h"

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>

namespace distwrap::bench {

// The kind of "all_reduce"; nullopt for operations that cannot be replayed.
std::optional<uint16_t> kind_of(absl::string_view name);
// The type of "f32".
std::optional<DType> dtype_of_name(absl::string_view name);
// The reduction of "sum"; nullopt for premul_sum, whose factor is not recorded.
std::optional<ReduceOp::Kind> reduction_of(absl::string_view name);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_REPLAY_NAMES_H_
