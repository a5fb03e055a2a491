// The experts that tokens want: drawn, or read from a file.
//
// Threads: values.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MOE_ROUTER_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MOE_ROUTER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::bench {

struct RouterSpec {
  int64_t tokens = 4096, experts = 64, topk = 8;  // tokens of a rank
  // An expert's probability falls with 1 / (number + 1) ^ skew.
  double skew = 0;
  // Experts in equal groups, of which a token's experts are in `most_groups`;
  // 0 groups: no limit.
  int64_t groups = 0, most_groups = 0;
};

// The ids (T,K) of a rank's tokens: different experts for each token. The same
// for the same rank and spec.
std::vector<int64_t> draw_experts(const RouterSpec& spec, int rank);

// Reads a file with one token on each line: K ids, separated by blanks, -1 for
// an unused slot; the tokens of rank 0, then those of rank 1, and so on. The
// ids (T,K) by rank; an error names the file's line.
absl::StatusOr<std::vector<std::vector<int64_t>>> read_experts(
    const std::string& path, const RouterSpec& spec, int ranks);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MOE_ROUTER_H_
