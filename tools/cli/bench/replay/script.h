// A script: the operations of a job, in a form that `distwrap bench replay` can
// run.
//
// A script is made of recordings or traces (read.h) and then linked: each
// collective with the same call of the other ranks, each message with its other
// end. Calls that do not match are refused by name, so a linked script runs to
// its end.
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
  std::vector<int> ranks;  // ranks of the world, by rank of the group
};

struct ReplayCall {
  size_t group = 0;   // index in the script's groups
  uint16_t kind = 0;  // DW_OP_*
  DType dtype = DType::kU8;
  ReduceOp::Kind reduce = ReduceOp::kSum;
  int64_t in = 0, out = 0;  // elements of this rank
  int peer = -1;            // root or peer, as rank of the group
  int64_t tag = 0;
  bool async = false;
  // The pieces of each rank; empty when they are equal. For all_to_all they
  // come from the recording, otherwise from the link.
  std::vector<int64_t> in_pieces = {}, out_pieces = {};
  // Earlier calls of this rank whose ends are awaited before this call.
  std::vector<size_t> awaits = {};
};

struct ReplayScript {
  std::string source;  // "recordings", "PARAM trace"
  std::vector<ReplayGroup> groups;
  std::vector<std::vector<ReplayCall>> ranks;  // the calls of each rank, in
                                               // order
  std::vector<std::string> notes;  // notes on calls that were left out or
                                   // changed

  int size() const { return static_cast<int>(ranks.size()); }
};

// The limits of a script.
inline constexpr int kMostReplayRanks = 128;
inline constexpr size_t kMostReplayCalls = 1 << 20;            // calls of a
                                                               // rank
inline constexpr int64_t kMostReplayBytes = int64_t{1} << 32;  // bytes of a
                                                               // buffer

// Checks a script and fills in pieces. `cut`: the beginning of some ranks is
// missing. Collectives and messages are then matched from the end, and calls
// without a counterpart are left out, with a note; otherwise they are refused.
absl::Status link(ReplayScript* script, bool cut);

// Changes the number of ranks. Collectives of groups of all ranks scale: the
// amount that one rank gives another stays, a root stays, and a root that is
// the last rank stays the last. Messages scale when every rank has the same
// messages at the same distance. Other groups, uneven pieces and other messages
// are refused by name.
absl::StatusOr<ReplayScript> scaled(const ReplayScript& script, int ranks);

// "all_reduce f32 x 1024 sum, 4 ranks of 'world'".
std::string describe(const ReplayScript& script, const ReplayCall& call);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_REPLAY_SCRIPT_H_
