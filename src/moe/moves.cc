#include "moe/moves.h"

#include <algorithm>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// One hop in which a rank sends a row for each of `tokens`, grouped by rank as
// `first` says, and gets as many as `in_first` says. Its own part does not
// travel.
void one_hop(absl::Span<const int64_t> first,
             absl::Span<const int64_t> in_first, int rank, Hop* hop) {
  const size_t ranks = first.size() - 1;
  hop->send_first.assign(1, 0);
  hop->recv_first.assign(1, 0);
  for (size_t r = 0; r < ranks; ++r) {
    const bool travels = r != at(rank);
    hop->send_first.push_back(hop->send_first.back() +
                              (travels ? first[r + 1] - first[r] : 0));
    hop->recv_first.push_back(hop->recv_first.back() +
                              (travels ? in_first[r + 1] - in_first[r] : 0));
  }
}

void no_second_hop(Moves* moves) {
  moves->two_hops = false;
  for (std::vector<int64_t>* first :
       {&moves->second.send_first, &moves->second.recv_first})
    first->assign(moves->first.send_first.size(), 0);
  moves->handed_on.clear();
  moves->own_first.clear();
}

}  // namespace

void make_forward_lists(const Lists& lists, const Topology& topology,
                        int source, MoveScratch* scratch, Lists* out) {
  out->row_first.assign(1, 0);
  out->pair_first.assign(1, 0);
  out->row_token.clear();
  out->row_pairs.clear();
  out->pair_bucket.clear();
  out->pair_slot.clear();
  std::vector<int64_t>& next = scratch->next;
  for (int p = 0; p < topology.ranks(); ++p) {
    const int node = topology.node_of(p);
    if (topology.forwarder(source, node) == p) {
      const absl::Span<const int32_t> members = topology.members(node);
      next.clear();
      for (const int32_t r : members) next.push_back(lists.row_first[at(r)]);
      const auto token_of = [&](size_t lane) {
        return next[lane] < lists.row_first[at(members[lane]) + 1]
                   ? lists.row_token[at(next[lane])]
                   : INT32_MAX;
      };
      for (;;) {
        int32_t token = INT32_MAX;
        for (size_t l = 0; l < members.size(); ++l)
          token = std::min(token, token_of(l));
        if (token == INT32_MAX) break;
        int32_t lanes = 0;
        for (size_t l = 0; l < members.size(); ++l) {
          if (token_of(l) != token) continue;
          ++next[l];
          ++lanes;
          out->pair_bucket.push_back(static_cast<int32_t>(l));
          out->pair_slot.push_back(0);
        }
        out->row_token.push_back(token);
        out->row_pairs.push_back(lanes);
      }
    }
    out->row_first.push_back(static_cast<int64_t>(out->row_token.size()));
    out->pair_first.push_back(static_cast<int64_t>(out->pair_bucket.size()));
  }
}

void move_pairs(const Lists& own, const Layout& layout, int rank,
                Moves* moves) {
  moves->by_pair = true;
  one_hop(own.pair_first, layout.pair_first, rank, &moves->first);
  no_second_hop(moves);
  moves->give.clear();
  moves->give.reserve(own.pair_bucket.size());
  for (size_t i = 0; i < own.row_token.size(); ++i)
    moves->give.insert(moves->give.end(), at(own.row_pairs[i]),
                       own.row_token[i]);
  moves->place_first.resize(layout.pair_bucket.size() + 1);
  moves->place_first.back() = static_cast<int64_t>(layout.place.size());
  for (size_t i = 0; i < layout.row_token.size(); ++i)
    for (int64_t j = layout.pair_row_first[i]; j < layout.pair_row_first[i + 1];
         ++j)
      moves->place_first[at(j)] =
          std::min(layout.place_first[i] + j - layout.pair_row_first[i],
                   layout.place_first[i + 1]);
}

void move_rows(const Lists& own, const Layout& layout, int rank, Moves* moves) {
  moves->by_pair = false;
  one_hop(own.row_first, layout.row_first, rank, &moves->first);
  no_second_hop(moves);
}

bool move_by_node(const Lists& forward, const Lists& forwarded,
                  const Layout& layout, const Topology& topology, int rank,
                  MoveScratch* scratch, Moves* moves) {
  const auto ranks = at(topology.ranks());
  const int node = topology.node_of(rank);
  const absl::Span<const int32_t> members = topology.members(node);
  moves->by_pair = false;
  one_hop(forward.row_first, forwarded.row_first, rank, &moves->first);
  no_second_hop(moves);
  moves->two_hops = true;

  // The second hop: to each rank of the node its rows, by source and token.
  std::vector<int64_t>& counts = scratch->counts;
  counts.assign(ranks, 0);
  for (const int32_t lane : forwarded.pair_bucket)
    if (members[at(lane)] != rank) ++counts[at(members[at(lane)])];
  Hop& second = moves->second;
  second.send_first.assign(1, 0);
  for (size_t r = 0; r < ranks; ++r)
    second.send_first.push_back(second.send_first.back() + counts[r]);
  std::vector<int32_t>& given = scratch->given;
  given.resize(at(second.sent()));
  moves->handed_on.resize(forwarded.pair_bucket.size());
  moves->own_first.assign(ranks, 0);
  std::vector<int64_t>& next = scratch->next;
  next = second.send_first;
  // The rows that this rank forwards to itself, by source and token.
  std::vector<int32_t>& to_me = scratch->to_me;
  to_me.clear();
  std::vector<int64_t>& to_me_first = scratch->to_me_first;
  to_me_first.assign(1, 0);
  int64_t pair = 0;
  for (size_t s = 0; s < ranks; ++s) {
    if (s == at(rank)) moves->own_first.assign(next.begin(), next.end() - 1);
    for (int64_t i = forwarded.row_first[s]; i < forwarded.row_first[s + 1];
         ++i) {
      const auto reference = static_cast<int32_t>(
          s == at(rank)
              ? int64_t{forwarded.row_token[at(i)]}
              : ~(moves->first.recv_first[s] + i - forwarded.row_first[s]));
      for (const int64_t last = pair + forwarded.row_pairs[at(i)]; pair < last;
           ++pair) {
        const int32_t to = members[at(forwarded.pair_bucket[at(pair)])];
        if (to == rank) {
          const auto row = layout.row_first[s] +
                           static_cast<int64_t>(to_me.size()) -
                           to_me_first.back();
          if (row >= layout.row_first[s + 1] ||
              layout.row_token[at(row)] != forwarded.row_token[at(i)])
            return false;
          moves->handed_on[at(pair)] = ~static_cast<int32_t>(row);
          to_me.push_back(reference);
        } else {
          const int64_t row = next[at(to)]++;
          moves->handed_on[at(pair)] = static_cast<int32_t>(row);
          given[at(row)] = reference;
        }
      }
    }
    to_me_first.push_back(static_cast<int64_t>(to_me.size()));
  }

  // The rows that come from the forwarders of this node, this rank among them.
  counts.assign(ranks, 0);
  for (size_t s = 0; s < ranks; ++s) {
    const int by = topology.forwarder(static_cast<int>(s), node);
    const int64_t rows = layout.row_first[s + 1] - layout.row_first[s];
    counts[at(by)] += rows;
    if (by == rank && to_me_first[s + 1] - to_me_first[s] != rows) return false;
  }
  Moves::Delivery& delivery = moves->delivery;
  delivery.give_first.assign(1, 0);
  delivery.get_first.assign(1, 0);
  delivery.give.clear();
  second.recv_first.assign(1, 0);
  for (size_t r = 0; r < ranks; ++r) {
    const bool is_own = r == at(rank);
    second.recv_first.push_back(second.recv_first.back() +
                                (is_own ? 0 : counts[r]));
    delivery.get_first.push_back(delivery.get_first.back() + counts[r]);
    if (is_own)
      delivery.give.insert(delivery.give.end(), to_me.begin(), to_me.end());
    else
      delivery.give.insert(delivery.give.end(),
                           given.begin() + second.send_first[r],
                           given.begin() + second.send_first[r + 1]);
    delivery.give_first.push_back(static_cast<int64_t>(delivery.give.size()));
  }
  next.assign(delivery.get_first.begin(), delivery.get_first.end() - 1);
  std::vector<int64_t>& row_of = scratch->row_of;
  row_of.resize(layout.row_token.size());
  for (size_t s = 0; s < ranks; ++s) {
    const auto by = at(topology.forwarder(static_cast<int>(s), node));
    for (int64_t i = layout.row_first[s]; i < layout.row_first[s + 1]; ++i)
      row_of[at(next[by]++)] = i;
  }
  delivery.place_first.assign(1, 0);
  delivery.place.clear();
  for (const int64_t i : row_of) {
    delivery.place.insert(delivery.place.end(),
                          layout.place.begin() + layout.place_first[at(i)],
                          layout.place.begin() + layout.place_first[at(i) + 1]);
    delivery.place_first.push_back(static_cast<int64_t>(delivery.place.size()));
  }
  return true;
}

}  // namespace distwrap::moe
