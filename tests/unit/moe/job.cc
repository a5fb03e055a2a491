#include "unit/moe/job.h"

#include <gtest/gtest.h>

namespace distwrap::testing {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// Hands the lists of all ranks over.
template <class From, class To>
void hand_over(std::vector<moe::PlanParts>& parts, const From& from,
               const To& to) {
  const int n = static_cast<int>(parts.size());
  for (int me = 0; me < n; ++me) {
    std::vector<int64_t> rows, pairs;
    for (int s = 0; s < n; ++s) {
      rows.push_back(from(parts[at(s)]).rows_of(me));
      pairs.push_back(from(parts[at(s)]).pairs_of(me));
    }
    to(parts[at(me)]).resize(rows, pairs);
    for (int s = 0; s < n; ++s) {
      std::vector<uint8_t> bytes(
          at(moe::list_bytes(rows[at(s)], pairs[at(s)])) + 1);
      moe::write_list(from(parts[at(s)]), me, bytes.data());
      moe::read_list(bytes.data(), s, &to(parts[at(me)]).lists());
    }
  }
}

}  // namespace

Job::Job(const JobOptions& options, const std::vector<Ids>& ids)
    : parts_(options.node_of.size()) {
  const int n = ranks();
  MoeOptions moe{.num_experts = options.experts,
                 .expert_to_rank = options.expert_to_rank,
                 .dedup = options.level,
                 .layout = options.layout,
                 .alignment = options.alignment,
                 .bases = options.bases,
                 .overflow = options.expert_capacity + options.row_capacity > 0
                                 ? MoeOverflow::kCapacityDrop
                                 : MoeOverflow::kExact,
                 .expert_capacity = options.expert_capacity,
                 .row_capacity = options.row_capacity};
  const auto fault = moe::find_fault(moe, n);
  EXPECT_FALSE(fault.has_value()) << fault->what;
  std::vector<moe::Crossings> crossings;
  for (int r = 0; r < n; ++r) {
    moe::PlanParts& mine = parts_[at(r)];
    moe::apply_options(moe, r, options.node_of, &mine);
    std::vector<int64_t> flat;
    for (const std::vector<int64_t>& token : ids[at(r)])
      flat.insert(flat.end(), token.begin(), token.end());
    EXPECT_EQ(mine.routing
                  .read(flat.data(), static_cast<int64_t>(ids[at(r)].size()),
                        options.slots, options.experts)
                  .token,
              -1);
    mine.make_lists();
    crossings.push_back(mine.crossings);
  }
  hand_over(
      parts_, [](auto& p) -> const moe::Lists& { return p.wanted; },
      [](auto& p) -> moe::Inbound& { return p.inbound; });
  std::vector<std::vector<int64_t>> dropped(at(n));
  std::vector<moe::Needed> needed(at(n));
  for (int r = 0; r < n; ++r) {
    moe::PlanParts& mine = parts_[at(r)];
    mine.choose_level(crossings);
    for (int s = 0; s < n; ++s)
      EXPECT_EQ(mine.inbound.check(s, static_cast<int64_t>(ids[at(s)].size()),
                                   options.slots, mine.buckets()),
                "");
    needed[at(r)] = mine.judge(&dropped[at(r)]);
  }
  for (int r = 0; r < n; ++r) {
    moe::PlanParts& mine = parts_[at(r)];
    if (!mine.has_verdicts()) {
      mine.keep_all();
    } else {
      std::vector<uint8_t> kept(at(mine.wanted.pairs()));
      for (int d = 0; d < n; ++d) {
        const moe::Lists& lists = parts_[at(d)].inbound.lists();
        const auto all = absl::MakeConstSpan(parts_[at(d)].inbound.kept());
        std::vector<uint8_t> bytes(
            at(moe::verdict_bytes(parts_[at(d)].buckets(), lists.pairs_of(r))));
        moe::write_verdict(
            needed[at(d)], dropped[at(d)],
            all.subspan(at(lists.pair_first[at(r)]), at(lists.pairs_of(r))),
            bytes.data());
        moe::Needed told;
        std::vector<int64_t> of_rank(dropped[at(d)].size());
        moe::read_verdict(bytes.data(), parts_[at(d)].buckets(),
                          mine.wanted.pairs_of(d), &told, of_rank.data(),
                          kept.data() + mine.wanted.pair_first[at(d)]);
        for (size_t b = 0; b < of_rank.size(); ++b)
          mine.dropped[at(mine.experts.of_rank(d)[b])] += of_rank[b];
      }
      mine.apply(kept);
    }
    mine.lay_out();
    mine.make_forward_lists();
  }
  hand_over(
      parts_, [](auto& p) -> const moe::Lists& { return p.forward; },
      [](auto& p) -> moe::Inbound& { return p.forwarded; });
}

Movement::Movement(std::vector<moe::PlanParts>& parts, MoeDedup level)
    : parts_(parts), level_(level), moves_(parts.size()) {
  for (int r = 0; r < ranks(); ++r) {
    moe::PlanParts& mine = parts_[at(r)];
    moe::Moves* const moves = &moves_[at(r)];
    if (level == MoeDedup::kNone)
      moe::move_pairs(mine.own, mine.layout, r, moves);
    else if (level == MoeDedup::kRank)
      moe::move_rows(mine.own, mine.layout, r, moves);
    else if (!moe::move_by_node(mine.forward, mine.forwarded.lists(),
                                mine.layout, mine.topology, r, &mine.scratch,
                                moves))
      made_ = false;
  }
}

// The items that each rank gets: from rank s to rank r those of sent[s] at
// from[r] to from[r + 1], into `to` of s.
template <class T>
std::vector<std::vector<T>> Movement::hop(
    const std::vector<std::vector<T>>& sent,
    const std::vector<int64_t> moe::Hop::*from,
    const std::vector<int64_t> moe::Hop::*to, moe::Hop moe::Moves::*which,
    std::mt19937_64& random) const {
  struct Stream {
    int source, target;
    int64_t done, count;
  };
  std::vector<Stream> streams;
  std::vector<std::vector<T>> got(at(ranks()));
  const auto ends = [&](int rank, const std::vector<int64_t> moe::Hop::*side)
      -> const std::vector<int64_t>& { return moves_[at(rank)].*which.*side; };
  for (int me = 0; me < ranks(); ++me) {
    got[at(me)].resize(at(ends(me, to).back()));
    for (int s = 0; s < ranks(); ++s) {
      const int64_t count = ends(s, from)[at(me) + 1] - ends(s, from)[at(me)];
      EXPECT_EQ(count, ends(me, to)[at(s) + 1] - ends(me, to)[at(s)]);
      if (count > 0) streams.push_back({s, me, 0, count});
    }
  }
  // A piece of random size of a random stream.
  while (!streams.empty()) {
    const size_t i = random() % streams.size();
    Stream& one = streams[i];
    for (auto piece = static_cast<int64_t>(1 + random() % 5);
         piece > 0 && one.done < one.count; --piece, ++one.done)
      got[at(one.target)][at(ends(one.target, to)[at(one.source)] + one.done)] =
          sent[at(one.source)]
              [at(ends(one.source, from)[at(one.target)] + one.done)];
    if (one.done < one.count) continue;
    streams[i] = streams.back();
    streams.pop_back();
  }
  return got;
}

// One hop: row i that rank s gives to rank r is number i of those that r gets
// from s.
std::vector<std::vector<Row>> Movement::deliver_at_once() const {
  const bool by_pair = level_ == MoeDedup::kNone;
  std::vector<std::vector<Row>> out(at(ranks()));
  for (int r = 0; r < ranks(); ++r) {
    const moe::Layout& layout = parts_[at(r)].layout;
    out[at(r)].assign(at(layout.rows), {-1, -1});
    const std::vector<int64_t>& place_first =
        by_pair ? moves_[at(r)].place_first : layout.place_first;
    const std::vector<int64_t>& get_first =
        by_pair ? layout.pair_first : layout.row_first;
    for (int s = 0; s < ranks(); ++s) {
      const moe::Lists& own = parts_[at(s)].own;
      const std::vector<int32_t>& give =
          by_pair ? moves_[at(s)].give : own.row_token;
      const std::vector<int64_t>& give_first =
          by_pair ? own.pair_first : own.row_first;
      const int64_t count = give_first[at(r) + 1] - give_first[at(r)];
      EXPECT_EQ(count, get_first[at(s) + 1] - get_first[at(s)]);
      for (int64_t i = 0; i < count; ++i) {
        const size_t k = at(get_first[at(s)] + i);
        for (int64_t j = place_first[k]; j < place_first[k + 1]; ++j)
          out[at(r)][at(layout.place[at(j)])] = {
              s, give[at(give_first[at(r)] + i)]};
      }
    }
  }
  return out;
}

std::vector<std::vector<Row>> Movement::deliver(std::mt19937_64& random) const {
  if (level_ != MoeDedup::kNode) return deliver_at_once();
  const int n = ranks();
  std::vector<std::vector<Row>> sent(at(n));
  for (int s = 0; s < n; ++s) {
    const moe::Lists& forward = parts_[at(s)].forward;
    for (int r = 0; r < n; ++r)
      for (int64_t i = forward.row_first[at(r)];
           r != s && i < forward.row_first[at(r) + 1]; ++i)
        sent[at(s)].push_back({s, forward.row_token[at(i)]});
  }
  const auto staged = hop(sent, &moe::Hop::send_first, &moe::Hop::recv_first,
                          &moe::Moves::first, random);
  std::vector<std::vector<Row>> out(at(n));
  for (int r = 0; r < n; ++r) {
    out[at(r)].assign(at(parts_[at(r)].layout.rows), {-1, -1});
    const moe::Moves::Delivery& to = moves_[at(r)].delivery;
    for (int s = 0; s < n; ++s) {
      const moe::Moves::Delivery& from = moves_[at(s)].delivery;
      const int64_t count = from.give_first[at(r) + 1] - from.give_first[at(r)];
      EXPECT_EQ(count, to.get_first[at(s) + 1] - to.get_first[at(s)]);
      for (int64_t i = 0; i < count; ++i) {
        const int32_t given = from.give[at(from.give_first[at(r)] + i)];
        const Row row = given < 0 ? staged[at(s)][at(~given)] : Row{s, given};
        const size_t k = at(to.get_first[at(s)] + i);
        for (int64_t j = to.place_first[k]; j < to.place_first[k + 1]; ++j)
          out[at(r)][at(to.place[at(j)])] = row;
      }
    }
  }
  return out;
}

Movement::Numbers Movement::combine(const Numbers& y,
                                    std::mt19937_64& random) const {
  const int n = ranks();
  moe::SumScratch scratch;
  Numbers staged(at(n));
  // The sums of a program of each rank.
  const auto sums = [&](const auto& make) {
    Numbers out(at(n));
    for (int r = 0; r < n; ++r) {
      moe::Program program;
      make(parts_[at(r)].sum_input(), moves_[at(r)], &scratch, &program);
      for (int64_t i = 0; i < program.rows(); ++i) {
        int64_t sum = 0;
        for (int64_t t = program.first[at(i)]; t < program.first[at(i) + 1];
             ++t) {
          const dw_moe_term& term = program.terms[at(t)];
          // Rows that come lie behind those that were kept.
          const int64_t kept =
              term.from == DW_MOE_FROM_RANKS && moves_[at(r)].two_hops
                  ? moves_[at(r)].second.sent()
                  : 0;
          sum += term.from == DW_MOE_FROM_IN
                     ? y[at(r)][at(term.row)]
                     : staged[at(r)][at(kept + term.row)];
        }
        out[at(r)].push_back(sum);
      }
    }
    return out;
  };
  const auto bring_back = [&](const Numbers& sent,
                              moe::Hop moe::Moves::*which) {
    const Numbers got =
        hop(sent, &moe::Hop::recv_first, &moe::Hop::send_first, which, random);
    for (int r = 0; r < n; ++r)
      staged[at(r)].insert(staged[at(r)].end(), got[at(r)].begin(),
                           got[at(r)].end());
  };
  if (level_ == MoeDedup::kNone) {
    // A row for each pair, in the order of the layout.
    Numbers sent(at(n));
    for (int r = 0; r < n; ++r) {
      const moe::Layout& layout = parts_[at(r)].layout;
      for (int s = 0; s < n; ++s)
        for (int64_t i = layout.row_first[at(s)];
             s != r && i < layout.row_first[at(s) + 1]; ++i)
          for (int64_t j = layout.pair_row_first[at(i)];
               j < layout.pair_row_first[at(i) + 1]; ++j)
            sent[at(r)].push_back(
                y[at(r)][at(layout.place[at(layout.place_first[at(i)] + j -
                                            layout.pair_row_first[at(i)])])]);
    }
    bring_back(sent, &moe::Moves::first);
  } else if (level_ == MoeDedup::kRank) {
    bring_back(sums(moe::sum_buckets), &moe::Moves::first);
  } else {
    bring_back(sums(moe::sum_buckets), &moe::Moves::second);
    bring_back(sums(moe::sum_lanes), &moe::Moves::first);
  }
  return sums(moe::sum_nodes);
}

std::vector<std::vector<Row>> Job::deliver(MoeDedup level) {
  std::mt19937_64 random(7);
  const Movement movement(parts_, level);
  EXPECT_TRUE(movement.made());
  return movement.made() ? movement.deliver(random)
                         : std::vector<std::vector<Row>>();
}

}  // namespace distwrap::testing
