// The translation of a Peer into a rank of a group.
#ifndef DISTWRAP_SRC_FACADE_ROOTS_H_
#define DISTWRAP_SRC_FACADE_ROOTS_H_

#include "distwrap/op_options.h"
#include "distwrap/peer.h"
#include "group/group_state.h"

#include <absl/status/status.h>
#include <climits>

namespace distwrap::facade {

// The behaviour of a call whose peer is not set.
enum class Role {
  kSource,         // kRootMissing, "src"
  kDestination,    // kRootMissing, "dst"
  kReceiveSource,  // kWildcard
  kFirstRank,      // rank 0 of the group
};

inline constexpr int kNoRank = INT_MIN;

// The peer's rank in the group. The communicator checks a rank that was given
// in the group's numbering. kNoRank when there is none; `root_error` then makes
// the error.
inline int rank_of(const group::GroupState& group, Peer peer, Role role) {
  if (!peer.is_set()) return role == Role::kFirstRank ? 0 : kNoRank;
  if (!peer.is_global()) return peer.rank();
  const int rank = group.group_rank(peer.rank());
  return rank < 0 ? kNoRank : rank;
}

absl::Status root_error(const char* call, const group::GroupState& group,
                        Peer peer, Role role, const OpOptions& options);

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_ROOTS_H_
