// Changes the number of ranks of a script.
#include "bench/replay/script.h"
#include "comm/op_shape.h"
#include "distwrap/abi/types.h"

#include <absl/strings/str_cat.h>

#include <numeric>
#include <utility>

namespace distwrap::bench {
namespace {

using comm::Extent;

absl::Status refuse(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

bool is_whole(const ReplayGroup& group, int ranks) {
  if (static_cast<int>(group.ranks.size()) != ranks) return false;
  for (int r = 0; r < ranks; ++r)
    if (group.ranks[static_cast<size_t>(r)] != r) return false;
  return true;
}

// The elements of `kind`'s buffer when the group has `to` ranks.
int64_t grown(Extent extent, int64_t count, int from, int to) {
  return extent == Extent::ALL_R || extent == Extent::ROOT_R ? count / from * to
                                                             : count;
}

// Compares calls except for `awaits`, which depends on chance: all ranks take
// it from rank 0.
bool same_but_for_ranks(const ReplayCall& a, const ReplayCall& b) {
  return a.group == b.group && a.kind == b.kind && a.dtype == b.dtype &&
         a.reduce == b.reduce && a.tag == b.tag && a.async == b.async;
}

}  // namespace

absl::StatusOr<ReplayScript> scaled(const ReplayScript& script, int ranks) {
  const int from = script.size();
  if (ranks == from) return script;
  if (ranks < 1 || ranks > kMostReplayRanks)
    return refuse(absl::StrCat(ranks, " is not 1 to ", kMostReplayRanks));
  ReplayScript result{script.source, script.groups, {}, script.notes};
  for (ReplayGroup& group : result.groups) {
    if (!is_whole(group, from))
      return refuse(absl::StrCat("group '", group.name,
                                 "' is not of all ranks: it does not scale to ",
                                 ranks));
    group.ranks.resize(static_cast<size_t>(ranks));
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<ReplayCall>& calls = result.ranks.emplace_back();
    for (size_t i = 0; i < script.ranks[0].size(); ++i) {
      ReplayCall call = script.ranks[0][i];
      const comm::OpShape& shape = comm::op_shape(call.kind);
      const auto no = [&](const char* why) {
        return refuse(absl::StrCat(describe(script, call), ": ", why,
                                   "; it does not scale to ", ranks));
      };
      // Compares the calls of all ranks, relative to the rank.
      for (int r = 1; r < from; ++r) {
        const std::vector<ReplayCall>& theirs =
            script.ranks[static_cast<size_t>(r)];
        if (theirs.size() != script.ranks[0].size() ||
            !same_but_for_ranks(theirs[i], call))
          return no("ranks make different calls, or in another order");
        if (!shape.collective() &&
            ((theirs[i].peer - r + from) % from != call.peer % from ||
             theirs[i].in != call.in || theirs[i].out != call.out))
          return no("the message is not the same, and as far, on all ranks");
      }
      if (!call.in_pieces.empty() || !call.out_pieces.empty())
        return no("its pieces are uneven");
      if (shape.collective()) {
        if (shape.peer == comm::PeerRole::ROOT) {
          // The root's call has the full sizes.
          const auto awaits = std::move(call.awaits);
          call = script.ranks[static_cast<size_t>(call.peer)][i];
          call.awaits = awaits;
          if (call.peer == from - 1)
            call.peer = ranks - 1;
          else if (call.peer >= ranks)
            return no("there is no such root");
        }
        const bool is_root =
            shape.peer != comm::PeerRole::ROOT || call.peer == rank;
        call.in = grown(shape.in, call.in, from, ranks);
        call.out = grown(shape.out, call.out, from, ranks);
        if (!is_root &&
            (shape.in == Extent::ROOT || shape.in == Extent::ROOT_R))
          call.in = 0;
        if (!is_root &&
            (shape.out == Extent::ROOT || shape.out == Extent::ROOT_R))
          call.out = 0;
      } else {
        // The shorter direction around the ring; for equal distances, sends go
        // up.
        const bool up = call.kind == DW_OP_SEND ? 2 * call.peer <= from
                                                : 2 * call.peer < from;
        const int distance = up ? call.peer : call.peer - from;
        call.peer = ((rank + distance) % ranks + ranks) % ranks;
      }
      calls.push_back(std::move(call));
    }
  }
  if (absl::Status status = link(&result, false); !status.ok()) return status;
  return result;
}

}  // namespace distwrap::bench
