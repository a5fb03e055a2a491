// A dispatch on ranks that do not exist: the plans are made by the library's
// own steps, and a model of links tells how long their rows take.
//
// A rank has one link to the network and one inside of its node, each with a
// way out and a way in. A piece of rows takes the sender's way out and the
// receiver's way in at the same time; a free sender takes the next of its
// receivers that is free, in the order of ranks. A forwarder hands a piece on
// when it has arrived. A combine takes the same ways backwards, so the times of
// rows of equal size are equal.
//
// Threads: values.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_MOE_SIMULATE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_MOE_SIMULATE_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::bench {

// GB/s of a rank in one direction, and the time of one hop.
struct MoeLinks {
  double net = 50, local = 160, memory = 2000, hop_us = 5;
};
// Reads "net=50,local=160,memory=2000,hop=5", of which parts may be left out.
absl::StatusOr<MoeLinks> parse_links(absl::string_view text);

// Reads "8x4": nodes and ranks of a node.
struct MoeGrid {
  int nodes = 0, lanes = 0;
  int ranks() const { return nodes * lanes; }
};
absl::StatusOr<MoeGrid> parse_grid(absl::string_view text);

struct SimulateSpec {
  MoeGrid grid = {};
  MoeLinks links = {};
  int64_t experts = 64, topk = 8;
  int64_t row_bytes = 0;
  int64_t capacity = 0;  // pairs of an expert; 0: no limit
};

// One level of deduplication. Rows are those of all ranks.
struct SimulatedLevel {
  std::string name;     // "none", "rank", "node"
  bool chosen = false;  // MoeDedup::kAuto takes it
  int64_t inter = 0, intra = 0, local = 0;
  double us = 0, limit_us = 0;
  // The bytes as users count them, of rows to their own node and rank, too: a
  // row for each (token, node), on one node for each (token, rank), and without
  // deduplication for each pair. GB/s of a rank.
  double logical = 0;
};
struct Simulated {
  std::vector<SimulatedLevel> levels;
  int64_t tokens = 0, dropped = 0;
  // The time of the first pass of all plans: reading the ids and listing rows
  // by rank. The best of three.
  double layout_ns = 0;
};

// `ids` (T,K) by rank.
Simulated simulate(const SimulateSpec& spec,
                   std::vector<std::vector<int64_t>> ids);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_MOE_SIMULATE_H_
