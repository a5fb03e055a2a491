// The moves of `distwrap bench redistribute` by DTensor of PyTorch, over Gloo.
//
// Threads: values.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_PLANS_TORCH_MOVES_H_
#define DISTWRAP_TOOLS_CLI_BENCH_PLANS_TORCH_MOVES_H_

#include "bench/plans/moves.h"

#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <string>
#include <vector>

namespace distwrap::bench {

// The words that start a rank, to which the file to write is added.
std::vector<std::string> torch_words(const std::string& python,
                                     absl::Span<const int64_t> sizes,
                                     int rounds);

// Adds the times that the ranks wrote to the moves.
absl::Status add_torch(absl::string_view text, std::vector<MoveCost>* moves);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_PLANS_TORCH_MOVES_H_
