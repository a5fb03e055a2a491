// Plans of random jobs against the formulas of docs/moe.md.
#include "moe/index_maps.h"
#include "unit/moe/job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace distwrap::testing {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// The experts of a token as a set, and where they are.
struct Wanted {
  std::set<int64_t> experts;
  std::set<int> ranks, nodes;
};

struct Truth {
  JobOptions options;
  std::vector<Ids> ids;
  std::vector<std::vector<Wanted>> wanted;  // by rank and token

  int rank_of(int64_t e) const {
    const auto n = static_cast<int64_t>(options.node_of.size());
    return options.expert_to_rank.empty()
               ? static_cast<int>(e / (options.experts / n))
               : options.expert_to_rank[at(e)];
  }
  // The position of an expert among those of its rank.
  int bucket_of(int64_t e) const {
    int bucket = 0;
    for (int64_t other = 0; other < e; ++other)
      bucket += rank_of(other) == rank_of(e);
    return bucket;
  }
  void find() {
    wanted.clear();
    for (const Ids& tokens : ids) {
      wanted.emplace_back();
      for (const std::vector<int64_t>& slots : tokens) {
        Wanted one;
        for (const int64_t e : slots)
          if (e >= 0) {
            one.experts.insert(e);
            one.ranks.insert(rank_of(e));
            one.nodes.insert(options.node_of[at(rank_of(e))]);
          }
        wanted.back().push_back(one);
      }
    }
  }
  // Drops what exceeds the capacity of an expert: the lowest (source, token)
  // stay.
  void drop(int64_t capacity) {
    std::map<int64_t, int64_t> counts;
    for (std::vector<Wanted>& tokens : wanted)
      for (Wanted& one : tokens) {
        Wanted left;
        for (const int64_t e : one.experts)
          if (counts[e]++ < capacity) {
            left.experts.insert(e);
            left.ranks.insert(rank_of(e));
            left.nodes.insert(options.node_of[at(rank_of(e))]);
          }
        one = left;
      }
  }
};

Truth random_job(std::mt19937_64& random) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Truth truth;
  const int nodes = pick(1, 9);
  // Uneven nodes whose ranks do not follow each other.
  for (int node = 0; node < nodes; ++node)
    for (int lanes = pick(1, 5); lanes > 0; --lanes)
      truth.options.node_of.push_back(node * 7);
  if (pick(0, 1) == 1)
    std::shuffle(truth.options.node_of.begin(), truth.options.node_of.end(),
                 random);
  const auto ranks = static_cast<int>(truth.options.node_of.size());
  truth.options.experts = int64_t{ranks} * pick(1, 5);
  if (pick(0, 2) == 0) {
    truth.options.experts = pick(1, 60);
    for (int64_t e = 0; e < truth.options.experts; ++e)
      truth.options.expert_to_rank.push_back(pick(0, ranks - 1));
  }
  truth.options.slots = pick(1, 9);
  truth.options.layout =
      pick(0, 1) == 0 ? MoeLayout::kRankMajor : MoeLayout::kExpertMajor;
  if (truth.options.layout == MoeLayout::kExpertMajor)
    truth.options.alignment = pick(1, 5);
  if (pick(0, 3) == 0) truth.options.expert_capacity = pick(1, 12);
  if (truth.options.layout == MoeLayout::kExpertMajor &&
      truth.options.expert_capacity > 0 && pick(0, 1) == 0)
    truth.options.bases = MoeBases::kFixed;
  const bool all_to_few = pick(0, 4) == 0;
  for (int r = 0; r < ranks; ++r) {
    truth.ids.emplace_back(at(pick(0, 5) == 0 ? 0 : pick(1, 17)));
    for (std::vector<int64_t>& token : truth.ids.back())
      for (int64_t k = 0; k < truth.options.slots; ++k) {
        const int64_t e = pick(
            -1, static_cast<int>(
                    all_to_few ? std::min<int64_t>(1, truth.options.experts - 1)
                               : truth.options.experts - 1));
        token.push_back(pick(0, 5) == 0 ? -1 : e);
      }
  }
  truth.find();
  return truth;
}

// The output of rank `r` by the definition of its layout.
std::vector<Row> expected_output(const Truth& truth, int r) {
  std::vector<Row> out;
  const int n = static_cast<int>(truth.wanted.size());
  const auto each = [&](const auto& visit) {
    for (int s = 0; s < n; ++s)
      for (size_t t = 0; t < truth.wanted[at(s)].size(); ++t)
        visit(s, static_cast<int>(t), truth.wanted[at(s)][t]);
  };
  if (truth.options.layout == MoeLayout::kRankMajor) {
    each([&](int s, int t, const Wanted& one) {
      if (one.ranks.count(r) != 0) out.push_back({s, t});
    });
    return out;
  }
  const int64_t align = truth.options.alignment;
  for (int64_t e = 0; e < truth.options.experts; ++e) {
    if (truth.rank_of(e) != r) continue;
    const size_t base = out.size();
    each([&](int s, int t, const Wanted& one) {
      if (one.experts.count(e) != 0) out.push_back({s, t});
    });
    const auto count = static_cast<int64_t>(out.size() - base);
    const int64_t room = truth.options.bases == MoeBases::kFixed
                             ? truth.options.expert_capacity
                             : count;
    out.resize(base + at((room + align - 1) / align * align), {-1, -1});
  }
  return out;
}

void expect_counters(const Truth& truth, Job& job, int s) {
  const auto& node_of = truth.options.node_of;
  const int home = node_of[at(s)];
  const moe::Topology& topology = job[s].topology;
  moe::Crossings sum;
  const auto add = [&](moe::Crossing& to, int r) {
    (r == s ? to.local : node_of[at(r)] == home ? to.intra : to.inter) += 1;
  };
  for (const Wanted& one : truth.wanted[at(s)]) {
    for (const int64_t e : one.experts) add(sum.none, truth.rank_of(e));
    for (const int r : one.ranks) {
      add(sum.rank, r);
      const int by = topology.forwarder(s, topology.node_of(r));
      (r == by ? sum.node.local : sum.node.intra) += 1;
    }
    for (const int node : one.nodes) sum.node.inter += node != home;
  }
  const moe::Crossings& got = job[s].crossings;
  EXPECT_EQ(got.none.inter, sum.none.inter);
  EXPECT_EQ(got.none.intra, sum.none.intra);
  EXPECT_EQ(got.none.local, sum.none.local);
  EXPECT_EQ(got.rank.inter, sum.rank.inter);
  EXPECT_EQ(got.rank.intra, sum.rank.intra);
  EXPECT_EQ(got.rank.local, sum.rank.local);
  EXPECT_EQ(got.node.inter, sum.node.inter);
  EXPECT_EQ(got.node.intra, sum.node.intra);
  EXPECT_EQ(got.node.local, sum.node.local);
}

TEST(MoeSimulator, RandomTopologiesEqualTheFormulas) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Truth truth = random_job(random);
    Job job(truth.options, truth.ids);
    if (truth.options.expert_capacity > 0)
      truth.drop(truth.options.expert_capacity);
    for (const MoeDedup level :
         {MoeDedup::kNone, MoeDedup::kRank, MoeDedup::kNode}) {
      const std::vector<std::vector<Row>> out = job.deliver(level);
      for (int r = 0; r < job.ranks(); ++r) {
        const std::vector<Row> expected = expected_output(truth, r);
        ASSERT_EQ(out[at(r)], expected)
            << "rank " << r << " at level " << static_cast<int>(level);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(job[r].layout.src_rank[i], expected[i].first);
          EXPECT_EQ(job[r].layout.src_token[i], expected[i].second);
        }
      }
    }
    for (int r = 0; r < job.ranks(); ++r) {
      expect_counters(truth, job, r);
      // All ranks know what was dropped.
      EXPECT_EQ(job[r].dropped, job[0].dropped);
    }
    if (HasFailure()) return;
  }
}

// 130 ranks on 13 nodes, of which most get nothing.
TEST(MoeSimulator, T05_130Ranks) {
  JobOptions options{.experts = 260, .slots = 3, .level = MoeDedup::kNode};
  for (int32_t r = 0; r < 130; ++r) options.node_of.push_back(r / 10);
  std::vector<Ids> ids(130);
  for (int64_t r = 0; r < 130; r += 3)
    ids[at(r)] = {{r * 2, (r * 7) % 260, 259}, {-1, (r * 11) % 260, 0}};
  Truth truth{options, ids, {}};
  truth.find();
  Job job(options, ids);
  for (const MoeDedup level :
       {MoeDedup::kNone, MoeDedup::kRank, MoeDedup::kNode}) {
    const std::vector<std::vector<Row>> out = job.deliver(level);
    for (int r = 0; r < 130; ++r)
      ASSERT_EQ(out[at(r)], expected_output(truth, r)) << r;
  }
  for (int r = 0; r < 130; ++r) expect_counters(truth, job, r);
}

// Sums of a combine at each level, for expert-major rows, against the sum over
// the experts of each token.
TEST(MoeSimulator, CombinesEqualTheSumsOfEachToken) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Truth truth = random_job(random);
    truth.options.layout = MoeLayout::kExpertMajor;
    Job job(truth.options, truth.ids);
    if (truth.options.expert_capacity > 0)
      truth.drop(truth.options.expert_capacity);
    // An expert's row of a token is a number of both.
    const auto number = [](int64_t e, int s, size_t t) {
      return 1 + e * 1000003 + s * 7919 + static_cast<int64_t>(t) * 31;
    };
    Movement::Numbers y, expected;
    for (int r = 0; r < job.ranks(); ++r) {
      const moe::Layout& layout = job[r].layout;
      y.emplace_back(at(layout.rows), INT64_MIN / 4);  // padding is not read
      for (size_t b = 0; b < layout.counts.size(); ++b)
        for (int64_t i = layout.offsets[b];
             i < layout.offsets[b] + layout.counts[b]; ++i)
          y.back()[at(i)] =
              number(job[r].experts.of_rank(r)[b], layout.src_rank[at(i)],
                     at(layout.src_token[at(i)]));
      expected.emplace_back();
      for (size_t t = 0; t < truth.wanted[at(r)].size(); ++t) {
        int64_t sum = 0;
        for (const int64_t e : truth.wanted[at(r)][t].experts)
          sum += number(e, r, t);
        expected.back().push_back(sum);
      }
    }
    for (const MoeDedup level :
         {MoeDedup::kNone, MoeDedup::kRank, MoeDedup::kNode}) {
      const Movement movement(job.parts(), level);
      ASSERT_TRUE(movement.made());
      ASSERT_EQ(movement.combine(y, random), expected)
          << "level " << static_cast<int>(level);
    }
  }
}

// The raw form: maps of random nodes, lanes and ids that may be no experts,
// against the formulas of its maps, its output and its sums.
TEST(MoeSimulator, MapsMoveWhatTheirFormulasSay) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto pick = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    const moe::MapShape shape{pick(1, 9), pick(1, 6), pick(1, 9), pick(1, 5)};
    const int ranks = shape.ranks();
    const int64_t slots = pick(1, 4), tokens = shape.tokens;
    const int experts = ranks * shape.experts;
    std::vector<int32_t> ids(at(ranks * tokens * slots));
    for (int32_t& id : ids) id = pick(-2, 2 * experts);
    const auto wants = [&](int s, int64_t t, int first, int last) {
      for (int64_t k = 0; k < slots; ++k) {
        const int32_t id = ids[at((s * tokens + t) * slots + k)];
        if (id >= first && id < std::min(last, experts)) return true;
      }
      return false;
    };
    // C[p](t), the number of tokens before t that fulfil p.
    const auto row_of = [&](const auto& p) {
      std::vector<int32_t> row;
      for (int64_t t = 0, n = 0; t < tokens; ++t)
        row.push_back(p(t) ? static_cast<int32_t>(n++) : -1);
      return row;
    };
    const auto append = [](std::vector<int32_t>* map,
                           const std::vector<int32_t>& row) {
      map->insert(map->end(), row.begin(), row.end());
    };
    const int of_node = shape.lanes * shape.experts;
    std::vector<moe::PlanParts> parts(at(ranks));
    std::vector<std::vector<Row>> outputs(at(ranks));
    Movement::Numbers y(at(ranks)), sums(at(ranks));
    for (auto& one : sums) one.assign(at(tokens), 0);
    for (int r = 0; r < ranks; ++r) {
      std::vector<int32_t> send, forward, recv, made[3];
      for (int n = 0; n < shape.nodes; ++n)
        append(&send, row_of([&](int64_t t) {
          return wants(r, t, n * of_node, (n + 1) * of_node);
        }));
      for (int d = 0; d < shape.lanes; ++d)
        for (int n = 0; n < shape.nodes; ++n) {
          const int to = r / shape.lanes * shape.lanes + d;
          append(&forward, row_of([&](int64_t t) {
            return wants(n * shape.lanes + r % shape.lanes, t,
                         to * shape.experts, (to + 1) * shape.experts);
          }));
        }
      for (int b = 0; b < shape.experts; ++b)
        for (int s = 0; s < ranks; ++s) {
          const int e = r * shape.experts + b;
          append(&recv,
                 row_of([&](int64_t t) { return wants(s, t, e, e + 1); }));
          for (int64_t t = 0; t < tokens; ++t)
            if (wants(s, t, e, e + 1)) {
              outputs[at(r)].push_back({s, static_cast<int>(t)});
              y[at(r)].push_back(1 + e * 1009 + s * 13 + t);
              sums[at(s)][at(t)] += y[at(r)].back();
            }
        }
      moe::make_maps(ids.data(), slots, shape, r, &made[0], &made[1], &made[2]);
      ASSERT_EQ(made[0], send);
      ASSERT_EQ(made[1], forward);
      ASSERT_EQ(made[2], recv);
      const moe::MapViews maps{send.data(), forward.data(), recv.data()};
      ASSERT_EQ(moe::check_maps(maps, shape), "");
      moe::PlanParts& mine = parts[at(r)];
      std::vector<int32_t> node_of;
      for (int q = 0; q < ranks; ++q) node_of.push_back(q / shape.lanes);
      mine.rank = r;
      mine.topology = moe::Topology(node_of);
      mine.experts = moe::Experts(experts, ranks, {});
      mine.form.expert_major = true;
      mine.routing.tokens = tokens;
      mine.routing.slots = 1;
      moe::read_maps(maps, shape, r, &mine);
    }
    const Movement movement(parts, MoeDedup::kNode);
    ASSERT_TRUE(movement.made());
    ASSERT_EQ(movement.deliver(random), outputs);
    ASSERT_EQ(movement.combine(y, random), sums);
  }
}

// The published mean of remote nodes for each token: 8 nodes of 8 ranks, 8 of
// 256 experts.
TEST(MoeSimulator, RemoteNodesOfUniformRouting) {
  std::mt19937_64 random(1);
  JobOptions options{.experts = 256, .slots = 8, .level = MoeDedup::kNode};
  for (int32_t r = 0; r < 64; ++r) options.node_of.push_back(r / 8);
  constexpr int kTokens = 128;
  std::vector<Ids> ids(64, Ids(kTokens));
  std::vector<int64_t> all(256);
  for (size_t e = 0; e < all.size(); ++e) all[e] = static_cast<int64_t>(e);
  for (Ids& tokens : ids)
    for (std::vector<int64_t>& token : tokens)
      std::sample(all.begin(), all.end(), std::back_inserter(token), 8, random);
  Job job(options, ids);
  int64_t inter = 0;
  for (int r = 0; r < 64; ++r) inter += job[r].crossings.node.inter;
  EXPECT_NEAR(static_cast<double>(inter) / (64 * kTokens), 4.6328, 0.0463);
}

// Expert-major with a budget of padded rows: the lowest (source, token) stay.
TEST(MoeSimulator, ABudgetOfPaddedRows) {
  JobOptions options{.node_of = {0, 0},
                     .experts = 4,
                     .slots = 1,
                     .layout = MoeLayout::kExpertMajor,
                     .alignment = 4,
                     .row_capacity = 8};
  // Rank 0 has experts 0 and 1; the sixth token opens a third block of rows.
  const std::vector<Ids> ids = {{{0}, {0}, {0}, {0}, {1}, {0}, {1}}, {{1}}};
  Job job(options, ids);
  const auto out = job.deliver(MoeDedup::kRank);
  const Row none{-1, -1};
  EXPECT_EQ(out[0],
            (std::vector<Row>{
                {0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, none, none, none}));
  EXPECT_EQ(job[1].dropped, (std::vector<int64_t>{1, 2, 0, 0}));
}

// Rank-major rows beyond the capacity take all their pairs along.
TEST(MoeSimulator, RowsBeyondTheCapacityDropTheirPairs) {
  JobOptions options{
      .node_of = {0, 0}, .experts = 4, .slots = 2, .row_capacity = 2};
  const std::vector<Ids> ids = {{{0, 1}, {2, 3}}, {{1, 0}, {0, 1}, {3, 1}}};
  Job job(options, ids);
  const auto out = job.deliver(MoeDedup::kRank);
  EXPECT_EQ(out[0], (std::vector<Row>{{0, 0}, {1, 0}}));
  EXPECT_EQ(out[1], (std::vector<Row>{{0, 1}, {1, 2}}));
  EXPECT_EQ(job[0].dropped, (std::vector<int64_t>{1, 2, 0, 0}));
}

// Lists that no rank of this program sends are refused.
TEST(MoeSimulator, ListsThatCannotBeAreNamed) {
  moe::Inbound inbound;
  const auto check =
      [&](std::vector<int32_t> tokens, std::vector<int32_t> pairs,
          std::vector<int32_t> buckets, std::vector<int32_t> slots) {
        inbound.resize({static_cast<int64_t>(tokens.size())},
                       {static_cast<int64_t>(buckets.size())});
        inbound.lists().row_token = tokens;
        inbound.lists().row_pairs = pairs;
        inbound.lists().pair_bucket = buckets;
        inbound.lists().pair_slot = slots;
        return inbound.check(0, 4, 2, 3);
      };
  EXPECT_EQ(check({0, 3}, {1, 2}, {2, 0, 2}, {0, 1, 0}), "");
  EXPECT_EQ(check({3, 0}, {1, 1}, {2, 0}, {0, 1}), "row 1 names token 0");
  EXPECT_EQ(check({4}, {1}, {2}, {0}), "row 0 names token 4");
  EXPECT_EQ(check({-1}, {1}, {2}, {0}), "row 0 names token -1");
  EXPECT_EQ(check({0}, {0}, {1}, {0}), "row 0 has 0 pairs");
  EXPECT_EQ(check({0}, {2}, {1}, {0}), "row 0 has 2 pairs");
  EXPECT_EQ(check({0}, {1}, {1, 2}, {0, 0}), "1 pairs belong to no row");
  EXPECT_EQ(check({0}, {1}, {3}, {0}), "pair 0 has bucket 3 and slot 0");
  EXPECT_EQ(check({0}, {2}, {1, 1}, {0, 1}), "pair 1 has bucket 1 and slot 1");
  EXPECT_EQ(check({0}, {1}, {1}, {2}), "pair 0 has bucket 1 and slot 2");
}

}  // namespace
}  // namespace distwrap::testing
