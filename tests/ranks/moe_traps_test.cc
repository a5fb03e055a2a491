// Traps into which exchanges of experts have fallen elsewhere, by number; those
// that other files prove are in tests/proofs.txt.
#include "distwrap/moe_dynamic.h"
#include "distwrap/moe_raw.h"
#include "moe/plan_state.h"
#include "moe/workspace.h"
#include "ranks/guarded.h"
#include "ranks/moe_ranks.h"
#include "sdk/half.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <thread>

namespace distwrap::testing {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

using Longs = std::vector<int64_t>;
using Ints = std::vector<int32_t>;
constexpr int32_t kKept = -7;

// A job of the raw form: one routing of all ranks, and what this rank gets.
struct RawJob {
  RawJob(int ranks, int lanes, int experts, int64_t tokens, int64_t slots,
         uint64_t seed, int me)
      : rank(me) {
    std::mt19937_64 random(seed);
    Ints ids(at(ranks * tokens * slots));
    for (int32_t& id : ids)
      id = static_cast<int32_t>(random() % at(ranks * experts + 1)) - 1;
    const int64_t shape[] = {ranks, tokens, slots};
    maps = *dedup_maps(TensorView(ids.data(), shape), experts, lanes, me);
    for (int64_t t = 0; t < tokens; ++t) x.push_back(value(me, t));
    for (int b = 0; b < experts; ++b)
      for (int s = 0; s < ranks; ++s)
        for (int64_t t = 0; t < tokens; ++t) {
          const auto first = ids.begin() + (s * tokens + t) * slots;
          if (std::count(first, first + slots, me * experts + b) == 0) continue;
          expected.push_back(value(s, t));
          expected_ids.push_back(static_cast<int32_t>(t));
        }
  }
  static int32_t value(int s, int64_t t) {
    return static_cast<int32_t>(1000 * s + t);
  }
  absl::StatusOr<Work> exec(const DedupRequest& request, bool async) {
    out.assign(expected.size(), kKept);
    ids_out.assign(expected.size(), kKept);
    return alltoallv_dedup_exec(TensorView(out), TensorView(ids_out),
                                TensorView(x), TensorView(maps.send),
                                TensorView(maps.forward), TensorView(maps.recv),
                                request, {.async = async});
  }
  void expect() const {
    EXPECT_EQ(out, expected);
    EXPECT_EQ(ids_out, expected_ids);
  }

  int rank;
  DedupMaps maps;
  Ints x, expected, expected_ids, out, ids_out;
};

DedupRequest request_of(int64_t tokens, int experts, int lanes) {
  absl::StatusOr<DedupRequest> request =
      alltoallv_dedup_init(tokens, 1, 2, experts, DType::kI32, lanes);
  EXPECT_TRUE(request.ok()) << request.status();
  return request.ok() ? *request : DedupRequest();
}

// Ranks are in calls of different requests.
TEST(MoeTraps, T02_OperationCountersSkewed) {
  run_bound(2, [](int me) {
    const DedupRequest one = request_of(3, 1, 1), other = request_of(3, 1, 1);
    RawJob job(2, 1, 1, 3, 2, 1, me);
    const absl::Status status = job.exec(me == 0 ? one : other, false).status();
    expect_reason(status, Reason::kIndexMap, "different calls of requests");
    // The group goes on, with a request whose calls are in step.
    finish(job.exec(request_of(3, 1, 1), false));
    job.expect();
  });
}

// With validation the error names the first token at which maps differ.
TEST(MoeTraps, T02_TheFirstTokenAtWhichMapsDiffer) {
  for (const char* backend : {"shm", "gloo"})
    run_ranks(4,
              {.backend = backend,
               .timeout = absl::Seconds(60),
               .check = Check::kFull},
              [](Session& session) {
                bind_session(session);
                const int me = session.rank();
                const DedupRequest request = request_of(3, 1, 2);
                Ints all;
                for (const Ints& ids : vector_a().ids)
                  all.insert(all.end(), ids.begin(), ids.end());
                const int64_t shape[] = {4, 3, 2};
                DedupMaps maps =
                    *dedup_maps(TensorView(all.data(), shape), 1, 2, me);
                // Rank 1's tokens for node 1 are 0, 1 and 2; it sends 0 and 2.
                if (me == 1) maps.send[4] = -1, maps.send[5] = 1;
                const Ints x = vector_tokens(me);
                Ints out(8, kKept), ids(8, kKept);
                const absl::Status status =
                    alltoallv_dedup_exec(TensorView(out), TensorView(ids),
                                         TensorView(x), TensorView(maps.send),
                                         TensorView(maps.forward),
                                         TensorView(maps.recv), request)
                        .status();
                expect_reason(status, Reason::kIndexMap,
                              "send_indices and forward_indices differ, first "
                              "at token 1 of rank 1");
                EXPECT_EQ(out, Ints(8, kKept));
                bind_session({});
              });
}

// With validation a fault of one rank's arguments is an error on all ranks, and
// nothing is sent.
TEST(MoeTraps, T02_ValidationTellsAllRanksOfAFault) {
  run_bound(3, [](int me) {
    Routed<int32_t> routed{1, {{0, 1}, {2, 0}, {1, 2}}};
    const MoePlan plan =
        good(routed.plan(me, {.num_experts = 3, .validate = true}));
    ASSERT_TRUE(plan);
    Ints x(2, me), rows(at(plan.recv_rows())), out(2, kKept);
    const int64_t three[] = {1, 2};
    for (const bool start : {false, true}) {
      // Rank 1 gives another number of tokens.
      const TensorView in =
          me == 1 ? TensorView(x.data(), three) : TensorView(x);
      const absl::Status status =
          start ? moe_dispatch_start(plan, in, TensorView(rows)).status()
                : moe_dispatch(plan, in, TensorView(rows)).status();
      expect_reason(status, Reason::kPlanMismatch, "another number of rows");
      EXPECT_EQ(error_info(status)->ranks, std::vector<int>{1});
    }
    // Rows that differ between ranks.
    const int64_t wide[] = {2, 2}, wide_rows[] = {plan.recv_rows(), 2};
    Ints x2(4), rows2(at(2 * plan.recv_rows()));
    expect_reason(
        me == 2 ? moe_dispatch(plan, TensorView(x2.data(), wide),
                               TensorView(rows2.data(), wide_rows))
                      .status()
                : moe_dispatch(plan, TensorView(x), TensorView(rows)).status(),
        Reason::kCallMismatch, "ranks move different rows");
    // The group goes on.
    finish(moe_dispatch(plan, TensorView(x), TensorView(rows)));
    finish(moe_combine(plan, TensorView(rows), TensorView(out)));
    EXPECT_EQ(out, x);
  });
}

// Check::kFull validates plans that do not ask for it.
TEST(MoeTraps, T02_FullChecksValidateAllPlans) {
  run_ranks(
      2,
      {.backend = "gloo", .timeout = absl::Seconds(60), .check = Check::kFull},
      [](Session& session) {
        bind_session(session);
        const int me = session.rank();
        Routed<int32_t> routed{1, {{1}, {0}}};
        const MoePlan plan = good(routed.plan(me, {.num_experts = 2}));
        ASSERT_TRUE(plan);
        Ints x(2, me), rows(2);
        const int64_t shape[] = {1, me + 1};
        expect_reason(moe_dispatch(plan, TensorView(x.data(), shape),
                                   TensorView(rows.data(), shape))
                          .status(),
                      Reason::kCallMismatch, "ranks move different rows");
        EXPECT_EQ(rows, Ints(2));
        finish(barrier());
        bind_session({});
      });
}

// Two execs of one request in flight, beside one of another request; a rank
// that comes late.
TEST(MoeTraps, T03_ExecsBackToBackAndBesideAnotherRequest) {
  run_bound(4, [](int me) {
    if (me == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const DedupRequest one = request_of(9, 2, 2), other = request_of(9, 2, 2);
    for (uint64_t round = 0; round < 4; ++round) {
      RawJob first(4, 2, 2, 9, 3, 3 * round, me);
      RawJob second(4, 2, 2, 9, 3, 3 * round + 1, me);
      RawJob third(4, 2, 2, 9, 3, 3 * round + 2, me);
      const absl::StatusOr<Work> works[] = {first.exec(one, true),
                                            second.exec(one, true),
                                            third.exec(other, true)};
      for (const absl::StatusOr<Work>& work : works) {
        ASSERT_TRUE(work.ok()) << work.status();
        const absl::Status ended = work->wait();
        ASSERT_TRUE(ended.ok()) << ended;
      }
      first.expect();
      second.expect();
      third.expect();
    }
  });
}

TEST(MoeTraps, T04_ARequestDroppedRightAfterTheCall) {
  run_bound(4, [](int me) {
    RawJob job(4, 2, 1, 5, 2, 4, me);
    absl::StatusOr<Work> work = job.exec(request_of(5, 1, 2), true);
    ASSERT_TRUE(work.ok()) << work.status();
    Floats sum = {1};
    finish(all_reduce(TensorView(sum)));
    const absl::Status ended = work->wait();
    ASSERT_TRUE(ended.ok()) << ended;
    job.expect();
  });
}

// 17 experts on each of 9 ranks, nodes of 3.
TEST(MoeTraps, T05_ManyExpertsAndNodes) {
  run_bound(9, [](int me) {
    RawJob job(9, 3, 17, 11, 6, 5, me);
    finish(job.exec(request_of(11, 17, 3), false));
    job.expect();
  });
}

// 257 chunks for each rank, of 12 bytes or none.
TEST(MoeTraps, T05_ManyChunksOf12Bytes) {
  run_bound(2, [](int me) {
    constexpr int64_t kEach = 257;
    Longs sizes, ids(2 * kEach), per_rank = {kEach, kEach}, gathered(4 * kEach);
    std::iota(ids.begin(), ids.end(), 0);
    for (int64_t c = 0; c < 2 * kEach; ++c) sizes.push_back(c % 3 == 1 ? 0 : 1);
    const int64_t rows =
        std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    Ints x(at(3 * rows));
    std::iota(x.begin(), x.end(), 100000 * me);
    std::vector<Ints> outs(2, Ints(x.size(), kKept));
    const TensorView views[] = {TensorView(outs[0]), TensorView(outs[1])};
    finish(alltoallv_dynamic_dispatch(
        views, TensorView(gathered), TensorView(x), TensorView(sizes),
        TensorView(ids), TensorView(per_rank), 3));
    const int64_t half =
        3 * std::accumulate(sizes.begin(), sizes.begin() + kEach, int64_t{0});
    for (int p = 0; p < 2; ++p)
      for (int64_t i = 0; i < 3 * rows; ++i) {
        const bool mine = (i < half) == (me == 0);
        ASSERT_EQ(outs[at(p)][at(i)], mine ? 100000 * p + i : kKept);
      }
  });
}

// A token of 17 MiB, larger than a chunk of any backend.
TEST(MoeTraps, T05_ATokenLargerThanAChunk) {
  run_bound(2, [](int me) {
    constexpr int64_t kWidth = (17 << 20) / 4 + 3;
    Routed<int32_t> routed{1, {{1}, {0}}};
    const MoePlan plan = good(routed.plan(me, {.num_experts = 2}));
    ASSERT_TRUE(plan);
    Ints x(at(kWidth)), rows(at(kWidth));
    std::iota(x.begin(), x.end(), me << 24);
    const int64_t shape[] = {1, kWidth};
    finish(moe_dispatch(plan, TensorView(x.data(), shape),
                        TensorView(rows.data(), shape)));
    EXPECT_EQ(rows.front(), (1 - me) << 24);
    EXPECT_EQ(rows.back(), ((1 - me) << 24) + kWidth - 1);
    finish(moe_combine(plan, TensorView(rows.data(), shape),
                       TensorView(x.data(), shape)));
    EXPECT_EQ(x.back(), (me << 24) + kWidth - 1);
  });
}

TEST(MoeTraps, T05_SizesAbove2To31) {
  moe::PartSizes sizes;
  sizes.from_rows({0, 3, 3, 7}, int64_t{1} << 30);
  EXPECT_EQ(sizes.counts, (Longs{int64_t{3} << 30, 0, int64_t{1} << 32}));
  EXPECT_EQ(sizes.displs, (Longs{0, int64_t{3} << 30, int64_t{3} << 30}));
}

// A rank that gets nothing gives no output.
TEST(MoeTraps, T06_NothingForARank) {
  run_bound(2, [](int me) {
    const DedupRequest request = request_of(2, 1, 1);
    const Ints ids = {0, 0, 0, 0};  // all tokens of both ranks to rank 0
    const int64_t shape[] = {2, 2, 1};
    const DedupMaps maps = *dedup_maps(TensorView(ids.data(), shape), 1, 1, me);
    const Ints x = {10 * me, 10 * me + 1};
    Ints out(4, kKept), numbers(4, kKept), back(2, kKept);
    const auto none = [](auto& data) {
      return TensorView(static_cast<int32_t*>(nullptr),
                        static_cast<int64_t>(data.size()) * 0);
    };
    finish(alltoallv_dedup_exec(me == 0 ? TensorView(out) : none(out),
                                me == 0 ? TensorView(numbers) : none(numbers),
                                TensorView(x), TensorView(maps.send),
                                TensorView(maps.forward), TensorView(maps.recv),
                                request));
    EXPECT_EQ(out, me == 0 ? (Ints{0, 1, 10, 11}) : Ints(4, kKept));
    finish(alltoallv_dedup_combine(
        TensorView(back), me == 0 ? TensorView(out) : none(out),
        TensorView(maps.send), TensorView(maps.forward), TensorView(maps.recv),
        request));
    EXPECT_EQ(back, x);
  });
}

// An expert that a token names three times has one row.
TEST(MoeTraps, T07_ARepeatedExpertIsOneRow) {
  run_bound(2, [](int me) {
    Routed<int32_t> routed{3, {{1, 1, 1}, {0, 0, 1}}};
    for (const MoeLayout layout :
         {MoeLayout::kRankMajor, MoeLayout::kExpertMajor}) {
      const MoePlan plan =
          good(routed.plan(me, {.num_experts = 2, .layout = layout}));
      ASSERT_TRUE(plan);
      EXPECT_EQ(plan.recv_rows(), me == 0 ? 1 : 2);
      EXPECT_EQ(values_of<int64_t>(plan.counts_per_rank()),
                me == 0 ? (Longs{0, 1}) : (Longs{1, 1}));
      Ints x = {me + 1}, rows(at(plan.recv_rows()), kKept), out = {kKept};
      finish(moe_dispatch(plan, TensorView(x), TensorView(rows)));
      EXPECT_EQ(rows, me == 0 ? Ints{2} : (Ints{1, 2}));
      finish(moe_combine(plan, TensorView(rows), TensorView(out)));
      EXPECT_EQ(out[0], me == 0 ? 1 : 4);
    }
  });
}

// Bytes for a peer that fill a chunk of a backend exactly, and a few more or
// less.
TEST(MoeTraps, T08_ChunksExactlyFullAndPartial) {
  run_bound(2, [](int me) {
    for (const int64_t bytes : {int64_t{1} << 16, int64_t{1} << 20})
      for (const int64_t more : {-1, 0, 1}) {
        const int64_t width = (bytes + more) / 8;  // 8 tokens, bytes
        Routed<int32_t> routed{1, {Ints(8, 1), Ints(8, 0)}};
        const MoePlan plan = good(routed.plan(me, {.num_experts = 2}));
        ASSERT_TRUE(plan);
        std::vector<uint8_t> x(at(8 * width)), rows(x.size());
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = static_cast<uint8_t>(i * 7 + at(me));
        const int64_t shape[] = {8, width};
        finish(moe_dispatch(plan, TensorView(x.data(), shape, DType::kU8),
                            TensorView(rows.data(), shape, DType::kU8)));
        for (uint8_t& byte : x) byte = static_cast<uint8_t>(byte + 1 - 2 * me);
        EXPECT_TRUE(x == rows);
      }
  });
}

// The sizes are read in the call: the caller may write them while data move.
TEST(MoeTraps, T11_SizesAreWrittenWhileDataMove) {
  run_bound(2, [](int me) {
    Longs sizes = {3, 1}, ids = {0, 1}, per_rank = {1, 1}, gathered(4);
    Ints x(4);
    std::iota(x.begin(), x.end(), 10 * me);
    std::vector<Ints> outs(2, Ints(4, kKept));
    const TensorView views[] = {TensorView(outs[0]), TensorView(outs[1])};
    absl::StatusOr<Work> work = alltoallv_dynamic_dispatch(
        views, TensorView(gathered), TensorView(x), TensorView(sizes),
        TensorView(ids), TensorView(per_rank), 1, {.async = true});
    sizes = {-1, -1};
    ids = {9, 9};
    per_rank = {7, -7};
    finish(work);
    for (int p = 0; p < 2; ++p)
      EXPECT_EQ(outs[at(p)], me == 0
                                 ? (Ints{10 * p, 10 * p + 1, 10 * p + 2, kKept})
                                 : (Ints{kKept, kKept, kKept, 10 * p + 3}));
    EXPECT_EQ(gathered, (Longs{3, 1, 3, 1}));
    Longs back_sizes = gathered, back_ids = {me, 2 + me};
    per_rank = {1, 1};
    Ints slabs, back(4, kKept);
    for (const Ints& out : outs)
      slabs.insert(slabs.end(), out.begin(), out.end());
    work = alltoallv_dynamic_combine(
        TensorView(back), TensorView(slabs), TensorView(back_sizes),
        TensorView(back_ids), TensorView(per_rank), 1, {.async = true});
    back_sizes.assign(4, -1);
    back_ids.assign(2, 77);
    finish(work);
    EXPECT_EQ(back, x);
  });
}

// Nothing is read or written outside of a call's views.
TEST(MoeTraps, T12_GuardPagesAroundTheBuffers) {
  run_bound(4, [](int me) {
    for (const bool at_end : {false, true}) {
      for (const MoeDedup level : kLevels) {
        Routed<int32_t> routed = vector_b();
        for (const MoeLayout layout :
             {MoeLayout::kRankMajor, MoeLayout::kExpertMajor}) {
          const MoePlan plan = good(routed.plan(
              me, {.num_experts = 8,
                   .dedup = level,
                   .layout = layout,
                   .alignment = layout == MoeLayout::kRankMajor ? 1 : 4,
                   .node_of = kTwoByTwo}));
          ASSERT_TRUE(plan);
          Guarded<int32_t> x(3, at_end, me), out(3, at_end, kKept);
          Guarded<int32_t> rows(plan.output_rows(), at_end, kKept);
          Guarded<float> slots(6, at_end, 0.5f);
          Guarded<float> weights(
              plan.output_rows() * (layout == MoeLayout::kRankMajor ? 2 : 1),
              at_end, -1);
          const int64_t slots_shape[] = {3, 2};
          const int64_t weights_shape[] = {
              plan.output_rows(), layout == MoeLayout::kRankMajor ? 2 : 1};
          const SideChannel side[] = {
              SideChannel::weights(TensorView(&slots[0], slots_shape),
                                   TensorView(&weights[0], weights_shape))};
          finish(moe_dispatch(plan, x.view(), rows.view(), side));
          Guarded<float> back(6, at_end, -1);
          const CombineOptions::Return returns[] = {
              {TensorView(&weights[0], weights_shape),
               TensorView(&back[0], slots_shape)}};
          finish(
              moe_combine(plan, rows.view(), out.view(), {.returns = returns}));
          for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(back[i], 0.5f);
        }
      }
      // The raw forms.
      RawJob job(4, 2, 2, 5, 2, 12, me);
      const auto rows = static_cast<int64_t>(job.expected.size());
      Guarded<int32_t> out(rows, at_end, kKept), ids(rows, at_end, kKept);
      finish(alltoallv_dedup_exec(
          out.view(), ids.view(), TensorView(job.x), TensorView(job.maps.send),
          TensorView(job.maps.forward), TensorView(job.maps.recv),
          request_of(5, 2, 2)));
      EXPECT_EQ(values_of<int32_t>(out.view()), job.expected);
      Longs counts(4, 1), received(4);
      std::vector<std::optional<Guarded<int32_t>>> pieces(4);
      std::vector<TensorView> views;
      for (auto& piece : pieces)
        views.push_back(piece.emplace(1, at_end, kKept).view());
      Guarded<int32_t> in(4, at_end, me);
      finish(alltoallv_dynamic_split(views, TensorView(received), in.view(),
                                     TensorView(counts)));
      for (int p = 0; p < 4; ++p) EXPECT_EQ((*pieces[at(p)])[0], p);
    }
  });
}

// A plan stages nothing before its first call.
TEST(MoeTraps, T13_AnIdlePlanStagesNothing) {
  run_bound(2, [](int me) {
    Routed<int32_t> routed{2, {{0, 1, 2, 3}, {3, 1, 2, 0}}};
    const MoePlan plan = good(
        routed.plan(me, {.num_experts = 4, .layout = MoeLayout::kExpertMajor}));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan.state()->staged_bytes(), 0);
    Ints x(2), rows(at(plan.recv_rows()));
    finish(moe_dispatch(plan, TensorView(x), TensorView(rows)));
    EXPECT_GT(plan.state()->staged_bytes(), 0);
    ASSERT_TRUE(plan.prepare(1 << 16).ok());
    EXPECT_GE(plan.state()->staged_bytes(), 2 << 16);
  });
}

// Pieces that lie at other alignments on both sides.
TEST(MoeTraps, T14_UnequalAlignmentOfBothSides) {
  run_bound(3, [](int me) {
    for (int64_t shift = 0; shift < 4; ++shift) {
      std::vector<uint8_t> in(40), out(40, 255);
      std::iota(in.begin(), in.end(), static_cast<uint8_t>(50 * me));
      const Longs sends = {5, 7, 11}, receives(3, sends[at(me)]);
      const int64_t in_at = (shift + me) % 4, out_at = (2 * shift + me) % 3;
      finish(device_alltoallv_single(TensorView(out.data() + out_at, 33),
                                     TensorView(in.data() + in_at, 23),
                                     TensorView(receives), TensorView(sends)));
      const int64_t begin =
          std::accumulate(sends.begin(), sends.begin() + me, int64_t{0});
      for (int64_t i = 0; i < 40; ++i) {
        const int64_t j = i - out_at, each = sends[at(me)];
        const bool covered = j >= 0 && j < 3 * each;
        const int64_t p = j / each;
        ASSERT_EQ(out[at(i)],
                  covered ? static_cast<uint8_t>(50 * p + (shift + p) % 4 +
                                                 begin + j % each)
                          : 255);
      }
    }
  });
}

// Orders of addition that round to different numbers of bf16.
TEST(MoeTraps, T16_OrdersThatGiveDifferentNumbers) {
  run_bound(3, [](int me) {
    // Token 0 of rank 0 wants experts 2, 0, 1, on nodes 1, 0 and 1.
    const std::vector<int32_t> nodes = {0, 1, 1};
    Routed<int32_t> routed{3, {{2, 0, 1}, {}, {}}};
    const float values[] = {1.0f, 1.0f / 256, 1.0f / 256};
    const auto bf16 = [](float x) { return dw_sdk::f32_to_bf16(x); };
    const auto combined = [&](MoeDedup level, MoeOrder order,
                              bool reproducible) -> float {
      const MoePlan plan =
          good(routed.plan(me, {.num_experts = 3,
                                .dedup = level,
                                .layout = MoeLayout::kExpertMajor,
                                .node_of = nodes}));
      std::vector<uint16_t> y = {bf16(values[me])}, out(me == 0 ? 1 : 0);
      finish(moe_combine(plan, TensorView(y.data(), 1, DType::kBF16),
                         TensorView(out.data(), me == 0 ? 1 : 0, DType::kBF16),
                         {.order = order, .reproducible = reproducible}));
      return me == 0 ? dw_sdk::bf16_to_f32(out[0]) : 0;
    };
    // f32 sums: 1 + (1/256 + 1/256) is 1 + 1/128 in every order, exactly.
    for (const MoeDedup level : kLevels)
      for (const MoeOrder order : {MoeOrder::kTree, MoeOrder::kTopK})
        for (const bool reproducible : {false, true}) {
          const float sum = combined(level, order, reproducible);
          if (me == 0) {
            EXPECT_EQ(sum, 1 + 1.0f / 128);
          }
        }
    // By node 2^24 + (1 + 1), by slot (1 + 2^24) + 1, whose sums are rounded.
    const float wide[] = {1 << 24, 1, 1};
    for (const MoeOrder order : {MoeOrder::kTree, MoeOrder::kTopK}) {
      const MoePlan plan =
          good(routed.plan(me, {.num_experts = 3,
                                .layout = MoeLayout::kExpertMajor,
                                .node_of = nodes}));
      Floats y = {wide[me]}, out(me == 0 ? 1 : 0);
      finish(moe_combine(plan, TensorView(y), TensorView(out),
                         {.order = order, .reproducible = true}));
      if (me == 0) {
        EXPECT_EQ(out[0], order == MoeOrder::kTree ? 16777218 : 16777216);
      }
    }
    // A partial sum that is rounded on the link differs: 256 + 1 of node 1 is
    // 256 in bf16, and 257 in f32.
    const float large[] = {1.0f, 256.0f, 1.0f};
    const auto sum_of = [&](bool reproducible) -> float {
      const MoePlan plan =
          good(routed.plan(me, {.num_experts = 3,
                                .dedup = MoeDedup::kNode,
                                .layout = MoeLayout::kExpertMajor,
                                .node_of = nodes}));
      std::vector<uint16_t> y = {bf16(large[me])};
      Floats out(me == 0 ? 1 : 0);
      finish(moe_combine(plan, TensorView(y.data(), 1, DType::kBF16),
                         TensorView(out), {.reproducible = reproducible}));
      return me == 0 ? out[0] : 0;
    };
    const float rounded = sum_of(false), exact = sum_of(true);
    if (me == 0) {
      EXPECT_EQ(rounded, 257);
      EXPECT_EQ(exact, 258);
    }
  });
}

}  // namespace
}  // namespace distwrap::testing
