// The rank that an operation names: a rank of the world, a rank of the group,
// or no rank.
//
// Threads and ownership: a plain value.
//
//   distwrap::send(x, Peer::group(1));
//   distwrap::broadcast(x, Peer::global(5), {.group = sub_group});
#ifndef DISTWRAP_PEER_H_
#define DISTWRAP_PEER_H_

#include "distwrap/export.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <optional>

namespace distwrap {

// Peer has no constructor from int, so that every caller says which numbering
// is meant.
class Peer {
 public:
  // No rank. As a root it means rank 0 of the group where the call says so.
  constexpr Peer() = default;
  static constexpr Peer global(int rank) { return {Numbering::kGlobal, rank}; }
  static constexpr Peer group(int rank) { return {Numbering::kGroup, rank}; }

  constexpr bool is_set() const { return numbering_ != Numbering::kUnset; }
  constexpr bool is_global() const { return numbering_ == Numbering::kGlobal; }
  constexpr int rank() const { return rank_; }
  friend constexpr bool operator==(const Peer&, const Peer&) = default;

 private:
  enum class Numbering : int { kUnset, kGlobal, kGroup };
  constexpr Peer(Numbering numbering, int rank)
      : numbering_(numbering), rank_(rank) {}

  Numbering numbering_ = Numbering::kUnset;
  int rank_ = -1;
};

// Makes a Peer for callers with one argument for each numbering, such as `src`
// and `group_src`. kRootBoth when both are given. `argument` is "src", "dst" or
// "peer", for the error.
DISTWRAP_EXPORT absl::StatusOr<Peer> choose_peer(std::optional<int> global,
                                                 std::optional<int> group,
                                                 absl::string_view argument);

}  // namespace distwrap

#endif  // DISTWRAP_PEER_H_
