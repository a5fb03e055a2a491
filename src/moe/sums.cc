#include "moe/sums.h"

#include <algorithm>

namespace distwrap::moe {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// The sums of a rank, of a node, and of all (dw_moe_term::into).
constexpr uint8_t kRank = 0, kNode = 1, kTotal = 2;

// Appends the terms of one result row, which are in the order of addition.
// A sum of one operand is that operand, so a term that is alone in its sums is
// added where they would be closed.
void append(absl::Span<const KeyedTerm> terms, Program* program) {
  const size_t n = terms.size();
  for (size_t i = 0; i < n; ++i) {
    const KeyedTerm& term = terms[i];
    const auto differs = [&](size_t other, bool inside, auto key) {
      return !inside || terms[other].*key != term.*key;
    };
    const bool opens_rank = differs(i - 1, i > 0, &KeyedTerm::rank);
    const bool ends_rank = differs(i + 1, i + 1 < n, &KeyedTerm::rank);
    const bool opens_node = differs(i - 1, i > 0, &KeyedTerm::node);
    const bool ends_node = differs(i + 1, i + 1 < n, &KeyedTerm::node);
    dw_moe_term out{static_cast<int32_t>(term.row), term.from, kTotal, 0, 0};
    if (!opens_node || !ends_node) {
      const bool is_rank = opens_rank && ends_rank;
      out.into = is_rank ? kNode : kRank;
      if (!is_rank && ends_rank) out.then |= DW_MOE_CLOSE_0;
      if (ends_node) out.then |= DW_MOE_CLOSE_1;
    }
    program->terms.push_back(out);
    program->slots.push_back(term.slot);
  }
  program->first.push_back(static_cast<int64_t>(program->terms.size()));
}

void clear(Program* program) {
  program->first.assign(1, 0);
  program->terms.clear();
  program->slots.clear();
}

// Collects terms in the order of addition within each token.
class ByToken {
 public:
  ByToken(int64_t tokens, SumScratch* scratch)
      : first_(scratch->first), next_(scratch->next), terms_(scratch->terms) {
    first_.assign(at(tokens) + 1, 0);
  }
  // First pass, then `begin`, then the second pass.
  void count(int32_t token) { ++first_[at(token) + 1]; }
  void begin() {
    for (size_t t = 0; t + 1 < first_.size(); ++t) first_[t + 1] += first_[t];
    next_ = first_;
    terms_.resize(at(first_.back()));
  }
  void add(int32_t token, const KeyedTerm& term) {
    terms_[at(next_[at(token)]++)] = term;
  }
  void write(Program* program) const {
    for (size_t t = 0; t + 1 < first_.size(); ++t)
      append(absl::MakeConstSpan(terms_).subspan(at(first_[t]),
                                                 at(first_[t + 1] - first_[t])),
             program);
  }

 private:
  std::vector<int64_t>&first_, &next_;
  std::vector<KeyedTerm>& terms_;
};

// The terms that are in this rank's own input: the output rows that inbound row
// `i` fills.
template <class Add>
void own_terms(const SumInput& in, int64_t i, const Add& add) {
  const Layout& layout = in.layout;
  const int64_t token = layout.row_token[at(i)];
  const int64_t first = layout.place_first[at(i)];
  for (int64_t j = first; j < layout.place_first[at(i) + 1]; ++j) {
    const int64_t pair = layout.pair_row_first[at(i)] + j - first;
    add(layout.place[at(j)],
        static_cast<int32_t>(token * in.slots + layout.pair_slot[at(pair)]));
  }
}

}  // namespace

void sum_buckets(const SumInput& in, const Moves& moves, SumScratch* scratch,
                 Program* program) {
  clear(program);
  const Layout& layout = in.layout;
  const auto ranks = layout.row_first.size() - 1;
  std::vector<KeyedTerm>& terms = scratch->terms;
  const auto add_row = [&](int64_t i) {
    terms.clear();
    own_terms(in, i, [&](int32_t row, int32_t) {
      terms.push_back({row, -1, 0, 0, DW_MOE_FROM_IN});
    });
    append(terms, program);
  };
  if (!moves.two_hops) {
    for (size_t s = 0; s < ranks; ++s)
      for (int64_t i = layout.row_first[s];
           s != at(in.rank) && i < layout.row_first[s + 1]; ++i)
        add_row(i);
    return;
  }
  const int node = in.topology.node_of(in.rank);
  for (const int32_t by : in.topology.members(node))
    for (size_t s = 0; by != in.rank && s < ranks; ++s)
      if (in.topology.forwarder(static_cast<int>(s), node) == by)
        for (int64_t i = layout.row_first[s]; i < layout.row_first[s + 1]; ++i)
          add_row(i);
}

void sum_lanes(const SumInput& in, const Moves& moves, SumScratch* scratch,
               Program* program) {
  clear(program);
  const Lists& forwarded = *in.forwarded;
  std::vector<KeyedTerm>& terms = scratch->terms;
  int64_t pair = 0;
  for (size_t s = 0; s + 1 < forwarded.row_first.size(); ++s)
    for (int64_t i = forwarded.row_first[s]; i < forwarded.row_first[s + 1];
         ++i) {
      terms.clear();
      for (const int64_t last = pair + forwarded.row_pairs[at(i)]; pair < last;
           ++pair) {
        const int32_t lane = forwarded.pair_bucket[at(pair)];
        const int32_t from = moves.handed_on[at(pair)];
        if (from >= 0) {
          terms.push_back({from, -1, lane, 0, DW_MOE_FROM_KEPT});
        } else {
          own_terms(in, ~from, [&](int32_t row, int32_t) {
            terms.push_back({row, -1, lane, 0, DW_MOE_FROM_IN});
          });
        }
      }
      if (s != at(in.rank)) append(terms, program);
    }
}

void sum_nodes(const SumInput& in, const Moves& moves, SumScratch* scratch,
               Program* program) {
  clear(program);
  const Lists& own = in.own;
  const Topology& topology = in.topology;
  const int home = topology.node_of(in.rank);
  ByToken tokens(in.tokens, scratch);
  // The two passes visit the ranks by node and lane, and their rows by token.
  const auto each_row = [&](const auto& visit) {
    for (const int32_t r : topology.by_node()) {
      const int node = topology.node_of(r);
      if (moves.two_hops && node != home) {
        const Lists& forward = *in.forward;
        if (topology.forwarder(in.rank, node) != r) continue;
        for (int64_t i = forward.row_first[at(r)];
             i < forward.row_first[at(r) + 1]; ++i)
          visit(r, node, i, forward.row_token[at(i)], true);
      } else {
        for (int64_t i = own.row_first[at(r)]; i < own.row_first[at(r) + 1];
             ++i)
          visit(r, node, i, own.row_token[at(i)], false);
      }
    }
  };
  // The pairs of a row follow those of the rows before it.
  std::vector<int64_t>& pairs_before = scratch->pairs_before;
  pairs_before.assign(own.row_token.size() + 1, 0);
  for (size_t i = 0; i < own.row_token.size(); ++i)
    pairs_before[i + 1] = pairs_before[i] + own.row_pairs[i];
  const auto local_row = [&](int64_t i) {
    return in.layout.row_first[at(in.rank)] + i - own.row_first[at(in.rank)];
  };
  each_row([&](int32_t r, int, int64_t i, int32_t token, bool forwarded) {
    if (forwarded || (r != in.rank && !moves.by_pair)) {
      tokens.count(token);
    } else if (r == in.rank) {
      own_terms(in, local_row(i),
                [&](int32_t, int32_t) { tokens.count(token); });
    } else {
      for (int32_t j = 0; j < own.row_pairs[at(i)]; ++j) tokens.count(token);
    }
  });
  tokens.begin();
  each_row([&](int32_t r, int node, int64_t i, int32_t token, bool forwarded) {
    const auto add = [&](uint8_t from, int64_t row, int32_t slot) {
      tokens.add(token, {row, slot, r, node, from});
    };
    if (forwarded) {
      add(DW_MOE_FROM_RANKS,
          moves.first.send_first[at(r)] + i - in.forward->row_first[at(r)], -1);
    } else if (r == in.rank) {
      own_terms(in, local_row(i), [&](int32_t row, int32_t slot) {
        add(DW_MOE_FROM_IN, row, slot);
      });
    } else if (moves.by_pair) {
      const int64_t first = pairs_before[at(i)];
      for (int64_t pair = first; pair < pairs_before[at(i) + 1]; ++pair)
        add(DW_MOE_FROM_RANKS,
            moves.first.send_first[at(r)] + pair - own.pair_first[at(r)],
            static_cast<int32_t>(token * in.slots + own.pair_slot[at(pair)]));
    } else if (moves.two_hops) {
      add(DW_MOE_FROM_KEPT, moves.own_first[at(r)] + i - own.row_first[at(r)],
          -1);
    } else {
      add(DW_MOE_FROM_RANKS,
          moves.first.send_first[at(r)] + i - own.row_first[at(r)], -1);
    }
  });
  tokens.write(program);
}

void sum_slots(const SumInput& in, const Moves& moves, const Routing& routing,
               const Experts& experts, SumScratch* scratch, Program* program) {
  clear(program);
  const Lists& own = in.own;
  const auto ranks = own.row_first.size() - 1;
  // The next row of each rank, and the first pair of that row: rows are ordered
  // by token.
  std::vector<int64_t>&row = scratch->rows, &pair = scratch->pairs,
  &used = scratch->last_used;
  row.assign(own.row_first.begin(), own.row_first.end() - 1);
  pair.assign(own.pair_first.begin(), own.pair_first.end() - 1);
  used.assign(ranks, -1);
  std::vector<int32_t>& touched = scratch->touched;
  const int64_t my_first_row = in.layout.row_first[at(in.rank)];
  const auto add = [&](bool is_own, int64_t from_row, int32_t slot) {
    program->terms.push_back(
        {static_cast<int32_t>(from_row),
         is_own ? uint8_t{DW_MOE_FROM_IN} : uint8_t{DW_MOE_FROM_RANKS}, kTotal,
         0, 0});
    program->slots.push_back(slot);
  };
  for (int64_t t = 0; t < in.tokens; ++t) {
    touched.clear();
    for (int64_t k = 0; k < in.slots; ++k) {
      const int32_t expert = routing.expert[at(t * in.slots + k)];
      if (expert < 0) continue;
      const auto r = at(experts.rank_of(expert));
      if (row[r] >= own.row_first[r + 1] || own.row_token[at(row[r])] != t)
        continue;
      const bool first_of_rank = used[r] != t;
      if (first_of_rank) {
        used[r] = t;
        touched.push_back(static_cast<int32_t>(r));
      }
      if (moves.by_pair) {
        const int32_t bucket = experts.bucket_of(expert);
        int64_t j = pair[r];
        const int64_t last = j + own.row_pairs[at(row[r])];
        while (j < last && own.pair_bucket[at(j)] != bucket) ++j;
        if (j == last) continue;  // the pair was dropped
        const int64_t mine = my_first_row + row[r] - own.row_first[r];
        add(r == at(in.rank),
            r == at(in.rank)
                ? in.layout
                      .place[at(in.layout.place_first[at(mine)] + j - pair[r])]
                : moves.first.send_first[r] + j - own.pair_first[r],
            static_cast<int32_t>(t * in.slots + k));
      } else if (first_of_rank) {
        const int64_t mine = my_first_row + row[r] - own.row_first[r];
        add(r == at(in.rank),
            r == at(in.rank)
                ? in.layout.place[at(in.layout.place_first[at(mine)])]
                : moves.first.send_first[r] + row[r] - own.row_first[r],
            -1);
      }
    }
    for (const int32_t r : touched) {
      pair[at(r)] += own.row_pairs[at(row[at(r)])];
      ++row[at(r)];
    }
    program->first.push_back(static_cast<int64_t>(program->terms.size()));
  }
}

}  // namespace distwrap::moe
