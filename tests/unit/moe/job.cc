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

std::vector<std::vector<Job::Row>> Job::deliver(MoeDedup level) {
  const int n = ranks();
  std::vector<moe::Moves> moves(at(n));
  for (int r = 0; r < n; ++r) {
    moe::PlanParts& mine = parts_[at(r)];
    if (level == MoeDedup::kNone) {
      moe::move_pairs(mine.own, mine.layout, r, &moves[at(r)]);
    } else if (level == MoeDedup::kRank) {
      moe::move_rows(mine.own, mine.layout, r, &moves[at(r)]);
    } else if (!moe::move_by_node(mine.forward, mine.forwarded.lists(),
                                  mine.layout, mine.topology, r, &mine.scratch,
                                  &moves[at(r)])) {
      forwards_ = false;
      return {};
    }
  }
  // The staging memory of each rank after each hop.
  std::vector<std::vector<Row>> staged(at(n));
  const auto row_at = [&](int rank, int32_t from) -> Row {
    return from < 0 ? Row{rank, ~from} : staged[at(rank)][at(from)];
  };
  for (moe::Hop moe::Moves::*const hop :
       {&moe::Moves::first, &moe::Moves::second}) {
    std::vector<std::vector<Row>> arrived(at(n));
    for (int me = 0; me < n; ++me)
      for (int s = 0; s < n; ++s) {
        const moe::Hop& theirs = moves[at(s)].*hop;
        const moe::Hop& mine = moves[at(me)].*hop;
        EXPECT_EQ(theirs.send_first[at(me) + 1] - theirs.send_first[at(me)],
                  mine.recv_first[at(s) + 1] - mine.recv_first[at(s)]);
        for (int64_t i = theirs.send_first[at(me)];
             i < theirs.send_first[at(me) + 1]; ++i)
          arrived[at(me)].push_back(row_at(s, theirs.send_row[at(i)]));
      }
    for (int r = 0; r < n; ++r)
      staged[at(r)].insert(staged[at(r)].end(), arrived[at(r)].begin(),
                           arrived[at(r)].end());
  }
  std::vector<std::vector<Row>> out(at(n));
  for (int r = 0; r < n; ++r) {
    const moe::Layout& layout = parts_[at(r)].layout;
    out[at(r)].assign(at(layout.rows), {-1, -1});
    for (size_t i = 0; i < layout.row_token.size(); ++i)
      for (int64_t j = layout.place_first[i]; j < layout.place_first[i + 1];
           ++j) {
        const int64_t pair =
            layout.pair_row_first[i] + j - layout.place_first[i];
        out[at(r)][at(layout.place[at(j)])] = row_at(
            r, moves[at(r)].from[level == MoeDedup::kNone ? at(pair) : i]);
      }
  }
  return out;
}

}  // namespace distwrap::testing
