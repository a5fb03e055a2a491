// From a Peer to a rank of a group.
#ifndef DISTWRAP_SRC_FACADE_ROOTS_H_
#define DISTWRAP_SRC_FACADE_ROOTS_H_

#include "distwrap/op_options.h"
#include "distwrap/peer.h"
#include "group/group_state.h"

#include <absl/status/status.h>
#include <climits>

namespace distwrap::facade {

// What a call does without one.
enum class Role {
  kSource,         // kRootMissing, "src"
  kDestination,    // kRootMissing, "dst"
  kReceiveSource,  // kWildcard
  kFirstRank,      // rank 0 of the group
};

inline constexpr int kNoRank = INT_MIN;

// Its rank in the group, which the communicator checks when it was given as
// one; kNoRank when it has none: `root_error` says why.
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
