// What a job did, to be done again: `distwrap bench replay`.
//
// Made of what others wrote down (read.h), then linked: each collective with
// those of the other ranks, each message with its other end. What does not fit
// is refused by name, so a linked script runs to its end.
//
// Threads: values and pure functions.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_REPLAY_SCRIPT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_REPLAY_SCRIPT_H_

#include "distwrap/reduce_op.h"
#include "distwrap/types.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::bench {

struct ReplayGroup {
  std::string name;
  std::vector<int> ranks;  // of the world, by rank of the group
};

struct ReplayCall {
  size_t group = 0;   // index among the script's
  uint16_t kind = 0;  // DW_OP_*
  DType dtype = DType::kU8;
  ReduceOp::Kind reduce = ReduceOp::kSum;
  int64_t in = 0, out = 0;  // elements of this rank
  int peer = -1;            // root or peer, rank of the group
  int64_t tag = 0;
  bool async = false;
  // Of all_to_all, where it was written down; else the link's: the piece of
  // each rank, empty when they are equal.
  std::vector<int64_t> in_pieces = {}, out_pieces = {};
  // Calls of this rank, begun before, whose ends are awaited first.
  std::vector<size_t> awaits = {};
};

struct ReplayScript {
  std::string source;  // "recordings", "PARAM trace"
  std::vector<ReplayGroup> groups;
  std::vector<std::vector<ReplayCall>> ranks;  // the calls of each, in order
  std::vector<std::string> notes;  // what was left out or is not as it was

  int size() const { return static_cast<int>(ranks.size()); }
};

// Most that a script may ask for.
inline constexpr int kMostReplayRanks = 128;
inline constexpr size_t kMostReplayCalls = 1 << 20;            // of a rank
inline constexpr int64_t kMostReplayBytes = int64_t{1} << 32;  // of a buffer

// Checks all of it and fills in pieces. `cut`: the beginning of some ranks is
// missing, so collectives and messages are matched from the end, and what has
// no counterpart is left out, with a note; else it is refused.
absl::Status link(ReplayScript* script, bool cut);

// The same for another number of ranks. Collectives of groups of all ranks
// scale: what each rank gives another stays; a root stays, the last one stays
// the last. Messages scale when every rank has the same ones at the same
// distance. Other groups, uneven pieces and other messages are refused by name.
absl::StatusOr<ReplayScript> scaled(const ReplayScript& script, int ranks);

// "all_reduce f32 x 1024 sum, 4 ranks of 'world'".
std::string describe(const ReplayScript& script, const ReplayCall& call);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_REPLAY_SCRIPT_H_
