// The raw form: the maps of the worked vectors, results over every backend, and
// maps that are wrong.
#include "distwrap/moe_raw.h"

#include "ranks/moe_ranks.h"

#include <algorithm>
#include <numeric>

namespace distwrap::testing {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

using Ints = std::vector<int32_t>;

// The ids of all ranks as (R,T,K).
template <class Id>
std::vector<Id> flat(const Routed<Id>& routed) {
  std::vector<Id> all;
  for (const auto& ids : routed.ids)
    all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

DedupMaps maps_of(const Routed<int32_t>& routed, int experts, int lanes,
                  int rank) {
  const Ints all = flat(routed);
  const int64_t shape[] = {static_cast<int64_t>(routed.ids.size()),
                           routed.tokens(0), routed.slots};
  absl::StatusOr<DedupMaps> maps =
      dedup_maps(TensorView(all.data(), shape), experts, lanes, rank);
  EXPECT_TRUE(maps.ok()) << maps.status();
  return maps.ok() ? *std::move(maps) : DedupMaps();
}

TEST(MoeRaw, MapsOfTheWorkedVector) {
  struct Expected {
    Ints send, forward, recv;
  };
  const Expected expected[] = {{{-1, 0, 1, 0, -1, 1},
                                {-1, 0, -1, 0, -1, 1, -1, 0, 1, 0, -1, -1},
                                {-1, 0, -1, 0, -1, -1, 0, -1, 1, -1, 0, 1}},
                               {{0, -1, 1, 0, 1, 2},
                                {0, -1, -1, -1, 0, 1, -1, -1, 0, -1, 0, -1},
                                {-1, 0, 1, -1, -1, 0, 0, -1, -1, -1, 0, -1}},
                               {{0, -1, 1, -1, 0, 1},
                                {0, -1, 1, -1, 0, -1, 0, -1, -1, -1, 0, 1},
                                {0, -1, 1, 0, 1, -1, -1, 0, -1, 0, -1, 1}},
                               {{-1, 0, 1, 0, -1, 1},
                                {0, 1, -1, 0, -1, 1, -1, 0, 1, 0, -1, -1},
                                {0, -1, -1, -1, 0, 1, -1, 0, 1, 0, -1, -1}}};
  for (int r = 0; r < 4; ++r) {
    const DedupMaps maps = maps_of(vector_a(), 1, 2, r);
    EXPECT_EQ(maps.send, expected[r].send) << r;
    EXPECT_EQ(maps.forward, expected[r].forward) << r;
    EXPECT_EQ(maps.recv, expected[r].recv) << r;
  }
}

// The maps of a plan are those of its ids.
TEST(MoeRaw, MapsOfAPlan) {
  run_bound(4, [](int me) {
    for (const int experts : {1, 2}) {
      Routed<int32_t> routed = experts == 1 ? vector_a() : vector_b();
      const MoePlan plan = good(routed.plan(me, {.num_experts = 4 * experts,
                                                 .dedup = MoeDedup::kNode,
                                                 .node_of = kTwoByTwo}));
      ASSERT_TRUE(plan);
      const absl::StatusOr<DedupMaps> maps = plan.raw_maps();
      ASSERT_TRUE(maps.ok()) << maps.status();
      const DedupMaps expected = maps_of(routed, experts, 2, me);
      EXPECT_EQ(maps->send, expected.send);
      EXPECT_EQ(maps->forward, expected.forward);
      EXPECT_EQ(maps->recv, expected.recv);
    }
    Routed<int32_t> routed = vector_a();
    const MoePlan by_rank = good(routed.plan(
        me,
        {.num_experts = 4, .dedup = MoeDedup::kRank, .node_of = kTwoByTwo}));
    expect_reason(by_rank.raw_maps().status(), Reason::kUnsupported);
    const Ints uneven = {0, 1, 1, 1};
    const MoePlan other = good(routed.plan(
        me, {.num_experts = 4, .dedup = MoeDedup::kNode, .node_of = uneven}));
    expect_reason(other.raw_maps().status(), Reason::kTopology);
    routed.ids[0].resize(4);
    const MoePlan fewer = good(routed.plan(
        me,
        {.num_experts = 4, .dedup = MoeDedup::kNode, .node_of = kTwoByTwo}));
    expect_reason(fewer.raw_maps().status(), Reason::kUnsupported,
                  "equally many tokens");
  });
}

struct Call {
  Ints out, ids;
  absl::Status status;
};

Call exec(const DedupRequest& request, const DedupMaps& maps, const Ints& x,
          size_t rows, bool async = false) {
  Call call{Ints(rows, -7), Ints(rows, -7), {}};
  absl::StatusOr<Work> work = alltoallv_dedup_exec(
      TensorView(call.out), TensorView(call.ids), TensorView(x),
      TensorView(maps.send), TensorView(maps.forward), TensorView(maps.recv),
      request, {.async = async});
  call.status = work.ok() ? work->wait() : work.status();
  return call;
}

TEST(MoeRaw, TheWorkedVectorThereAndBack) {
  const std::vector<Ints> out = {{1, 100, 200, 202, 301, 302},
                                 {1, 2, 102, 200, 301},
                                 {0, 2, 100, 101, 201, 300, 302},
                                 {0, 101, 102, 201, 202, 300}};
  const std::vector<Ints> ids = {{1, 0, 0, 2, 1, 2},
                                 {1, 2, 2, 0, 1},
                                 {0, 2, 0, 1, 1, 0, 2},
                                 {0, 1, 2, 1, 2, 0}};
  const std::vector<Ints> combined = {
      {0, 3, 10}, {400, 707, 612}, {600, 1407, 1010}, {2100, 903, 1208}};
  run_bound(4, [&](int me) {
    absl::StatusOr<DedupRequest> request =
        alltoallv_dedup_init(3, 1, 2, 1, DType::kI32, 2);
    ASSERT_TRUE(request.ok()) << request.status();
    const DedupMaps maps = maps_of(vector_a(), 1, 2, me);
    const Ints x = vector_tokens(me);
    for (const bool async : {false, true}) {
      // A row more than needed stays as it is.
      Call call = exec(*request, maps, x, out[at(me)].size() + 1, async);
      ASSERT_TRUE(call.status.ok()) << call.status;
      EXPECT_EQ(call.out.back(), -7);
      EXPECT_EQ(call.ids.back(), -7);
      call.out.pop_back();
      call.ids.pop_back();
      EXPECT_EQ(call.out, out[at(me)]);
      EXPECT_EQ(call.ids, ids[at(me)]);
      for (int32_t& row : call.out) row *= me + 1;
      Ints back(3, -7);
      finish(alltoallv_dedup_combine(
          TensorView(back), TensorView(call.out), TensorView(maps.send),
          TensorView(maps.forward), TensorView(maps.recv), *request, {},
          {.async = async}));
      EXPECT_EQ(back, combined[at(me)]);
    }
  });
}

// Node counts that are no lanes, invalid ids, fresh routing in each call.
TEST(MoeRaw, RandomRoutingsEqualTheDefinition) {
  struct Grid {
    int ranks, lanes, experts;
  };
  for (const Grid grid :
       {Grid{6, 2, 2}, Grid{6, 3, 1}, Grid{4, 1, 3}, Grid{3, 3, 4}}) {
    run_bound(grid.ranks, [&](int me) {
      constexpr int64_t kTokens = 7, kWidth = 3;
      absl::StatusOr<DedupRequest> request = alltoallv_dedup_init(
          kTokens, kWidth, 4, grid.experts, DType::kI32, grid.lanes);
      ASSERT_TRUE(request.ok()) << request.status();
      for (uint64_t seed = 0; seed < 4; ++seed) {
        std::mt19937_64 random(seed);
        std::uniform_int_distribution<int32_t> id(
            -2, 2 * grid.ranks * grid.experts);
        Routed<int32_t> routed{4, {}};
        for (int r = 0; r < grid.ranks; ++r) {
          routed.ids.emplace_back(at(kTokens * 4));
          for (int32_t& one : routed.ids.back()) one = id(random);
        }
        const DedupMaps maps = maps_of(routed, grid.experts, grid.lanes, me);
        Ints x, expected, ids;
        for (int64_t t = 0; t < kTokens; ++t)
          for (int64_t h = 0; h < kWidth; ++h)
            x.push_back(static_cast<int32_t>(me * 10000 + t * 10 + h));
        for (int b = 0; b < grid.experts; ++b)
          for (int s = 0; s < grid.ranks; ++s)
            for (int64_t t = 0; t < kTokens; ++t) {
              const auto first = routed.ids[at(s)].begin() + t * 4;
              if (std::count(first, first + 4, me * grid.experts + b) == 0)
                continue;
              ids.push_back(static_cast<int32_t>(t));
              for (int64_t h = 0; h < kWidth; ++h)
                expected.push_back(
                    static_cast<int32_t>(s * 10000 + t * 10 + h));
            }
        Ints out(expected.size(), -7), got_ids(ids.size(), -7);
        finish(alltoallv_dedup_exec(TensorView(out), TensorView(got_ids),
                                    TensorView(x), TensorView(maps.send),
                                    TensorView(maps.forward),
                                    TensorView(maps.recv), *request));
        EXPECT_EQ(out, expected);
        EXPECT_EQ(got_ids, ids);
        Ints back(x.size(), -7);
        finish(alltoallv_dedup_combine(
            TensorView(back), TensorView(out), TensorView(maps.send),
            TensorView(maps.forward), TensorView(maps.recv), *request));
        for (int64_t t = 0; t < kTokens; ++t) {
          Ints wanted(routed.ids[at(me)].begin() + t * 4,
                      routed.ids[at(me)].begin() + t * 4 + 4);
          std::sort(wanted.begin(), wanted.end());
          wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
          const auto copies =
              std::count_if(wanted.begin(), wanted.end(), [&](int32_t e) {
                return e >= 0 && e < grid.ranks * grid.experts;
              });
          for (int64_t h = 0; h < kWidth; ++h)
            EXPECT_EQ(back[at(t * kWidth + h)], copies * x[at(t * kWidth + h)]);
        }
      }
    });
  }
}

// Each fault is one error on all ranks, nothing is written, and the group goes
// on.
TEST(MoeRaw, WrongMapsAreNamedOnAllRanks) {
  struct Bad {
    const char* text;
    std::vector<int> ranks;
    std::function<void(int me, DedupMaps* maps)> change;
  };
  const Bad all[] = {
      {"send_indices has 2 at row 0, position 2",
       {0},
       [](int me, DedupMaps* maps) {
         if (me == 0) maps->send[2] = 2;
       }},
      {"forward_indices has 3 at row 0, position 0",
       {1},
       [](int me, DedupMaps* maps) {
         if (me == 1) maps->forward[0] = 3;
       }},
      {"recv_indices has -2 at row 0, position 0",
       {3},
       [](int me, DedupMaps* maps) {
         if (me == 3) maps->recv[0] = -2;
       }},
      {"recv_indices has 1 at row 1, position 0",
       {2},
       [](int me, DedupMaps* maps) {
         if (me == 2) std::swap(maps->recv[3], maps->recv[4]);
       }},
      // A compact map that others contradict.
      {"send_indices and forward_indices differ",
       {0, 2},
       [](int me, DedupMaps* maps) {
         if (me == 0)
           std::rotate(maps->send.begin() + 3, maps->send.begin() + 5,
                       maps->send.begin() + 6);
         if (me == 0) maps->send[3] = 0, maps->send[4] = 1, maps->send[5] = -1;
       }},
      {"forward_indices and recv_indices differ",
       {},
       [](int me, DedupMaps* maps) {
         if (me == 1) maps->recv[0] = 0, maps->recv[1] = 1, maps->recv[2] = 2;
       }}};
  run_bound(4, [&](int me) {
    absl::StatusOr<DedupRequest> request =
        alltoallv_dedup_init(3, 1, 2, 1, DType::kI32, 2);
    ASSERT_TRUE(request.ok()) << request.status();
    const Ints x = vector_tokens(me);
    for (const Bad& bad : all) {
      SCOPED_TRACE(bad.text);
      DedupMaps maps = maps_of(vector_a(), 1, 2, me);
      bad.change(me, &maps);
      const Call call = exec(*request, maps, x, 8);
      expect_reason(call.status, Reason::kIndexMap, bad.text);
      if (!bad.ranks.empty()) {
        EXPECT_EQ(error_info(call.status)->ranks, bad.ranks);
      }
      EXPECT_EQ(call.out, Ints(8, -7));
      EXPECT_EQ(x, vector_tokens(me));
    }
    const DedupMaps maps = maps_of(vector_a(), 1, 2, me);
    // Rank 2 needs seven rows.
    const Call small = exec(*request, maps, x, me == 2 ? 6 : 7);
    expect_reason(small.status, Reason::kCapacity, "7 rows or more");
    EXPECT_EQ(error_info(small.status)->ranks, (std::vector<int>{2}));
    ASSERT_TRUE(exec(*request, maps, x, 7).status.ok());
  });
}

// The order of forward_indices is (lane, node), not (node, lane).
TEST(MoeRaw, ForwardIndicesByNodeFail) {
  run_bound(6, [](int me) {
    absl::StatusOr<DedupRequest> request =
        alltoallv_dedup_init(3, 1, 1, 1, DType::kI32, 2);
    ASSERT_TRUE(request.ok()) << request.status();
    Routed<int32_t> routed{
        1, {{0, 3, 5}, {1, 1, 2}, {4, 5, 0}, {2, 2, 4}, {3, 0, 1}, {5, 5, 4}}};
    DedupMaps maps = maps_of(routed, 1, 2, me);
    const Ints right = maps.forward;
    for (size_t lane = 0; lane < 2; ++lane)
      for (size_t node = 0; node < 3; ++node)
        std::copy_n(&right[(lane * 3 + node) * 3], 3,
                    &maps.forward[(node * 2 + lane) * 3]);
    expect_reason(exec(*request, maps, {1, 2, 3}, 18).status,
                  Reason::kIndexMap);
  });
}

TEST(MoeRaw, ArgumentsAreRefusedBeforeAnythingIsSent) {
  run_bound(3, [](int me) {
    expect_reason(alltoallv_dedup_init(3, 1, 1, 1, DType::kI32, 2).status(),
                  Reason::kTopology, "equally many on each node");
    for (const int64_t width : {0, -1})
      expect_reason(alltoallv_dedup_init(3, width, 1, 1, DType::kI32).status(),
                    Reason::kInvalidArgument);
    expect_reason(alltoallv_dedup_init(3, me + 1, 1, 1, DType::kI32).status(),
                  Reason::kCallMismatch, "different sizes");
    absl::StatusOr<DedupRequest> request =
        alltoallv_dedup_init(3, 1, 1, 1, DType::kI32, 3);
    ASSERT_TRUE(request.ok()) << request.status();
    Routed<int32_t> routed{1, {{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}};
    DedupMaps maps = maps_of(routed, 1, 3, me);
    Ints x(3, 5), out(9), ids(9);
    Floats floats(9);
    std::vector<int64_t> wide(9);
    const auto call = [&](TensorView o, TensorView i, TensorView in,
                          TensorView send, const DedupRequest& by) {
      return alltoallv_dedup_exec(o, i, in, send, TensorView(maps.forward),
                                  TensorView(maps.recv), by)
          .status();
    };
    const TensorView o(out), i(ids), in(x), send(maps.send);
    expect_reason(call(o, i, in, send, DedupRequest()), Reason::kPlanMismatch);
    expect_reason(call(TensorView(floats), i, in, send, *request),
                  Reason::kInvalidArgument);
    expect_reason(call(o, TensorView(wide), in, send, *request),
                  Reason::kMetadataType, "recv_block_ids");
    expect_reason(call(o, i, o, send, *request), Reason::kInvalidArgument);
    expect_reason(call(o, i, in, TensorView(wide), *request),
                  Reason::kMetadataType, "send_indices");
    expect_reason(call(o, i, in, i, *request), Reason::kInvalidArgument,
                  "send_indices");
    expect_reason(alltoallv_dedup_combine(in, o, send, TensorView(maps.forward),
                                          TensorView(maps.recv), *request,
                                          {.order = MoeOrder::kTopK})
                      .status(),
                  Reason::kInvalidArgument, "maps tell no slots");
    expect_reason(dedup_maps(TensorView(floats), 1, 1, 0).status(),
                  Reason::kMetadataType);
    ASSERT_TRUE(call(o, i, in, send, *request).ok());
    EXPECT_EQ(out, (Ints{5, 5, 5, 0, 0, 0, 0, 0, 0}));
  });
}

}  // namespace
}  // namespace distwrap::testing
