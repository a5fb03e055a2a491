// The node of each rank, and the rank of each expert.
//
// Nodes are numbered by their lowest rank and a node's ranks, its lanes, in
// ascending order. Nodes may differ in size, and a node's ranks need not follow
// each other.
// Threads: constant after construction.
#ifndef DISTWRAP_SRC_MOE_TOPOLOGY_H_
#define DISTWRAP_SRC_MOE_TOPOLOGY_H_

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace distwrap::moe {

class Topology {
 public:
  Topology() = default;
  // `host_of`: by rank, any number that is equal on ranks of one node.
  explicit Topology(absl::Span<const int32_t> host_of);

  int ranks() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return static_cast<int>(first_.size()) - 1; }
  int node_of(int rank) const { return node_of_[static_cast<size_t>(rank)]; }
  int lane_of(int rank) const { return lane_of_[static_cast<size_t>(rank)]; }
  // The ranks of a node in ascending order.
  absl::Span<const int32_t> members(int node) const {
    const auto n = static_cast<size_t>(node);
    return absl::MakeConstSpan(members_).subspan(
        static_cast<size_t>(first_[n]),
        static_cast<size_t>(first_[n + 1] - first_[n]));
  }
  // All ranks by (node, lane).
  absl::Span<const int32_t> by_node() const { return members_; }
  // The rank that takes the tokens of `source` for `node` and hands them on
  // there; on its own node the source itself.
  int forwarder(int source, int node) const {
    if (node_of(source) == node) return source;
    const absl::Span<const int32_t> there = members(node);
    return there[static_cast<size_t>(lane_of(source)) % there.size()];
  }

 private:
  std::vector<int32_t> node_of_, lane_of_;  // by rank
  std::vector<int32_t> first_ = {0};        // by node, into members_
  std::vector<int32_t> members_;
};

// The rank of each expert, and the expert's bucket: its position among the
// experts of that rank.
class Experts {
 public:
  Experts() = default;
  // Without `rank_of`, `count` experts are divided equally among the ranks.
  Experts(int64_t count, int ranks, absl::Span<const int32_t> rank_of);

  int64_t count() const { return static_cast<int64_t>(rank_of_.size()); }
  int rank_of(int64_t expert) const {
    return rank_of_[static_cast<size_t>(expert)];
  }
  int bucket_of(int64_t expert) const {
    return bucket_of_[static_cast<size_t>(expert)];
  }
  // The experts of a rank by bucket.
  absl::Span<const int32_t> of_rank(int rank) const {
    const auto r = static_cast<size_t>(rank);
    return absl::MakeConstSpan(grouped_).subspan(
        static_cast<size_t>(first_[r]),
        static_cast<size_t>(first_[r + 1] - first_[r]));
  }
  const int32_t* rank_table() const { return rank_of_.data(); }
  const int32_t* bucket_table() const { return bucket_of_.data(); }

 private:
  std::vector<int32_t> rank_of_, bucket_of_;  // by expert
  std::vector<int32_t> first_;                // by rank, into grouped_
  std::vector<int32_t> grouped_;
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_TOPOLOGY_H_
