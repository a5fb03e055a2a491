#include "moe/routing.h"

#include <algorithm>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

template <class Id>
RoutingFault Routing::read(const Id* ids, int64_t t_count, int64_t k_count,
                           int64_t experts) {
  tokens = t_count;
  slots = k_count;
  expert.resize(at(size()));
  last_token_.assign(at(experts), 0);
  int32_t* out = expert.data();
  int32_t* const last = last_token_.data();
  for (int64_t t = 0; t < tokens; ++t) {
    const auto mark = static_cast<int32_t>(t + 1);
    for (int64_t k = 0; k < slots; ++k, ++ids, ++out) {
      const auto id = static_cast<int64_t>(*ids);
      if (id >= experts || id < -1) [[unlikely]]
        return {t, k, id};
      if (id < 0) {
        *out = kUnused;
      } else if (last[id] != mark) [[likely]] {
        last[id] = mark;
        *out = static_cast<int32_t>(id);
      } else {
        const int32_t* const row = out - k;
        int32_t first = 0;
        while (row[first] != static_cast<int32_t>(id)) ++first;
        *out = kRepeats - first;
      }
    }
  }
  return {};
}

template RoutingFault Routing::read(const int32_t*, int64_t, int64_t, int64_t);
template RoutingFault Routing::read(const int64_t*, int64_t, int64_t, int64_t);

void Routing::read_map(const uint8_t* map, int64_t t_count, int64_t experts) {
  tokens = t_count;
  slots = experts;
  expert.resize(at(size()));
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t e = 0; e < experts; ++e)
      expert[at(t * experts + e)] =
          map[t * experts + e] != 0 ? static_cast<int32_t>(e) : kUnused;
}

void ListMaker::make(const Routing& routing, const Experts& experts, int ranks,
                     absl::Span<const uint8_t> masked,
                     std::vector<int64_t>* dropped, Lists* lists) {
  const auto n = at(ranks);
  row_at_.assign(n + 1, 0);
  pair_at_.assign(n + 1, 0);
  last_token_.assign(n, -1);
  const int32_t* const rank_of = experts.rank_table();
  const int32_t* const bucket_of = experts.bucket_table();
  const int32_t* const chosen = routing.expert.data();
  const auto left_out = [&](int32_t rank) {
    return !masked.empty() && masked[at(rank)] != 0;
  };
  for (int64_t t = 0, i = 0; t < routing.tokens; ++t)
    for (int64_t k = 0; k < routing.slots; ++k, ++i) {
      if (chosen[i] < 0) continue;
      const int32_t rank = rank_of[chosen[i]];
      if (left_out(rank)) {
        if (dropped != nullptr) ++(*dropped)[at(chosen[i])];
        continue;
      }
      ++pair_at_[at(rank) + 1];
      if (last_token_[at(rank)] == t) continue;
      last_token_[at(rank)] = static_cast<int32_t>(t);
      ++row_at_[at(rank) + 1];
    }
  for (size_t r = 0; r < n; ++r) {
    row_at_[r + 1] += row_at_[r];
    pair_at_[r + 1] += pair_at_[r];
  }
  lists->row_first = row_at_;
  lists->pair_first = pair_at_;
  lists->row_token.resize(at(lists->rows()));
  lists->row_pairs.resize(at(lists->rows()));
  lists->pair_bucket.resize(at(lists->pairs()));
  lists->pair_slot.resize(at(lists->pairs()));
  last_token_.assign(n, -1);
  for (int64_t t = 0, i = 0; t < routing.tokens; ++t)
    for (int64_t k = 0; k < routing.slots; ++k, ++i) {
      if (chosen[i] < 0) continue;
      const int32_t rank = rank_of[chosen[i]];
      if (left_out(rank)) continue;
      if (last_token_[at(rank)] != t) {
        last_token_[at(rank)] = static_cast<int32_t>(t);
        const size_t row = at(row_at_[at(rank)]++);
        lists->row_token[row] = static_cast<int32_t>(t);
        lists->row_pairs[row] = 0;
      }
      const size_t row = at(row_at_[at(rank)] - 1);
      const int32_t before = lists->row_pairs[row]++;
      // Insertion keeps the few pairs of a row in the order of their buckets.
      const int32_t bucket = bucket_of[chosen[i]];
      size_t to = at(pair_at_[at(rank)]++);
      for (int32_t j = 0; j < before && lists->pair_bucket[to - 1] > bucket;
           ++j, --to) {
        lists->pair_bucket[to] = lists->pair_bucket[to - 1];
        lists->pair_slot[to] = lists->pair_slot[to - 1];
      }
      lists->pair_bucket[to] = bucket;
      lists->pair_slot[to] = static_cast<int32_t>(k);
    }
}

Crossings count_crossings(const Lists& lists, const Topology& topology,
                          int source, std::vector<int64_t>* memory) {
  Crossings all;
  const int home = topology.node_of(source);
  for (int r = 0; r < topology.ranks(); ++r) {
    const int64_t rows = lists.rows_of(r), pairs = lists.pairs_of(r);
    const auto add = [&](Crossing& crossing, int64_t count) {
      (r == source                   ? crossing.local
       : topology.node_of(r) == home ? crossing.intra
                                     : crossing.inter) += count;
    };
    add(all.none, pairs);
    add(all.rank, rows);
  }
  if (topology.nodes() == 1) {
    all.node = all.rank;
    return all;
  }
  // By token the last node that counted it, plus 1.
  std::vector<int64_t>& counted = *memory;
  int32_t tokens = 0;
  for (const int32_t token : lists.row_token) tokens = std::max(tokens, token);
  counted.assign(at(tokens) + 1, 0);
  for (int node = 0; node < topology.nodes(); ++node) {
    const int forwarder = topology.forwarder(source, node);
    for (const int32_t r : topology.members(node)) {
      const int64_t rows = lists.rows_of(r);
      (r == forwarder ? all.node.local : all.node.intra) += rows;
      if (node == home) continue;
      for (int64_t i = lists.row_first[at(r)]; i < lists.row_first[at(r) + 1];
           ++i) {
        int64_t& last = counted[at(lists.row_token[at(i)])];
        all.node.inter += last == node + 1 ? 0 : 1;
        last = node + 1;
      }
    }
  }
  return all;
}

}  // namespace distwrap::moe
