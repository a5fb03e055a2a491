// The cost of a mixture-of-experts exchange beside the calls that a program
// would write by hand: sort by expert, all_to_all_single, add by token.
//
// Threads: one at a time.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MOE_LAYER_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MOE_LAYER_H_

#include "bench/moe/router.h"
#include "bench/statistics.h"
#include "distwrap/types.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::bench {

// A layer: tokens of a rank with `hidden` elements each, f32 or bf16.
struct MoeLayerSpec {
  RouterSpec router;
  int64_t hidden = 1024;
  DType dtype = DType::kF32;
  int64_t capacity = 0;          // most pairs of an expert; 0: no limit
  std::string router_file = {};  // empty: the experts are drawn
  std::string layout = "expert_major", dedup = "auto";
  bool shared_memory = false;  // rows in memory that the backend allocates
};

// One phase, as rank 0 has timed it in turns with the calls by hand.
struct MoePhase {
  std::string name;  // "plan", "dispatch", "combine"
  double us = 0, hand_us = 0;
  Ratio ratio;
};

struct MoeCost {
  std::vector<MoePhase> phases;
  // Figures of rank 0, for one dispatch; `dropped` counts pairs of all ranks.
  int64_t rows = 0, sent_rows = 0, hand_rows = 0, bytes = 0, dropped = 0;
  // The bytes of the rows that it sends, by link: to other nodes, to other
  // ranks of its own node, and to itself.
  int64_t bytes_inter = 0, bytes_intra = 0, bytes_local = 0;
  std::string dedup;     // the level that was taken
  double memcpy_us = 0;  // a copy of the bytes that rank 0 gets
  // The least time of one host: its memory reads each token once and writes
  // each row once, as fast as in that copy.
  double limit_us = 0;
  bool equal = true;  // whether both combined to the same values
};

// The body of one rank; rank 0 writes `path`.
absl::Status measure_moe(const std::string& backend, const MoeLayerSpec& spec,
                         int rounds, const std::string& path);

std::string write_moe(const MoeCost& cost);
absl::StatusOr<MoeCost> read_moe(absl::string_view text);

// The median times of another library, in a run of its own.
struct OtherCost {
  std::string name;
  double dispatch_us = 0, combine_us = 0;
};

struct MoeReport {
  std::string backend;
  int ranks = 0, rounds = 0;
  MoeLayerSpec spec;
  MoeCost cost;
  std::vector<OtherCost> others = {};
};

std::string show_moe(const MoeReport& report);
std::string moe_json(const MoeReport& report);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MOE_LAYER_H_
