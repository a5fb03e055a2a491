// The cost of redistributions beside the calls that a program would write by
// hand for the same move.
//
// Threads: one at a time.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_PLANS_MOVES_H_
#define DISTWRAP_TOOLS_CLI_BENCH_PLANS_MOVES_H_

#include "bench/statistics.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::bench {

// One move of a square matrix of f32 on a mesh of one axis, as rank 0 has timed
// it. `bytes`: of the larger of a rank's two parts.
struct MoveCost {
  std::string from, to, by_hand;
  int64_t bytes = 0;
  double plan_us = 0, hand_us = 0;
  double torch_us = -1;  // by DTensor of PyTorch; negative: not measured
  Ratio ratio;           // plan over calls by hand
  bool equal = true;     // whether both gave the same elements
};

// The body of one rank; rank 0 writes `path`.
absl::Status measure_moves(const std::string& backend,
                           absl::Span<const int64_t> sizes, int rounds,
                           const std::string& path);

std::string write_moves(absl::Span<const MoveCost> moves);
absl::StatusOr<std::vector<MoveCost>> read_moves(absl::string_view text);

struct MovesReport {
  std::string backend;
  int ranks = 0, rounds = 0;
  std::vector<MoveCost> moves;
};

std::string show_moves(const MovesReport& report);
std::string moves_json(const MovesReport& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_PLANS_MOVES_H_
