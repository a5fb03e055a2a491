// Chunks whose sizes the sender alone knows: the worked vectors, random chunks
// by definition, and bad arguments.
#include "distwrap/moe_dynamic.h"

#include "ranks/moe_ranks.h"

#include <numeric>

namespace distwrap::testing {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

using Longs = std::vector<int64_t>;
using Ints = std::vector<int32_t>;
constexpr int32_t kKept = -7;

TEST(MoeDynamic, TheWorkedVectorThereAndBack) {
  run_bound(2, [](int me) {
    const Longs sizes = me == 0 ? Longs{1, 3, 2, 2} : Longs{4, 0, 1, 3};
    const Longs ids = {0, 1, 2, 3}, per_rank = {2, 2};
    Ints in(8);
    std::iota(in.begin(), in.end(), 1000 * me);
    Ints outs[] = {Ints(8, kKept), Ints(8, kKept)};
    const TensorView views[] = {TensorView(outs[0]), TensorView(outs[1])};
    Longs gathered(8);
    finish(alltoallv_dynamic_dispatch(
        views, TensorView(gathered), TensorView(in), TensorView(sizes),
        TensorView(ids), TensorView(per_rank), 1));
    const int32_t k = kKept;
    if (me == 0) {
      EXPECT_EQ(outs[0], (Ints{0, 1, 2, 3, k, k, k, k}));
      EXPECT_EQ(outs[1], (Ints{1000, 1001, 1002, 1003, k, k, k, k}));
    } else {
      EXPECT_EQ(outs[0], (Ints{k, k, k, k, 4, 5, 6, 7}));
      EXPECT_EQ(outs[1], (Ints{k, k, k, k, 1004, 1005, 1006, 1007}));
    }
    EXPECT_EQ(gathered, (Longs{1, 3, 2, 2, 4, 0, 1, 3}));
    Ints slabs = outs[0];
    slabs.insert(slabs.end(), outs[1].begin(), outs[1].end());
    const Longs back_ids = me == 0 ? Longs{0, 1, 4, 5} : Longs{2, 3, 6, 7};
    Ints back(8, kKept);
    finish(alltoallv_dynamic_combine(TensorView(back), TensorView(slabs),
                                     TensorView(gathered), TensorView(back_ids),
                                     TensorView(per_rank), 1));
    EXPECT_EQ(back, in);
  });
}

TEST(MoeDynamic, EqualChunksOfRows) {
  run_bound(3, [](int me) {
    constexpr int64_t kChunk = 64;
    const int64_t r = 3;
    const Longs sizes(3, kChunk), ids = {0, 1, 2}, per_rank = {1, 1, 1};
    const std::vector<uint16_t> in(at(r * kChunk * 2),
                                   static_cast<uint16_t>(me + 1));
    std::vector<std::vector<uint16_t>> outs(
        3, std::vector<uint16_t>(at(r * kChunk * 2)));
    std::vector<TensorView> views;
    for (auto& out : outs)
      views.emplace_back(out.data(), r * kChunk * 2, DType::kBF16);
    Longs gathered(9);
    finish(alltoallv_dynamic_dispatch(
        views, TensorView(gathered),
        TensorView(const_cast<uint16_t*>(in.data()), r * kChunk * 2,
                   DType::kBF16),
        TensorView(sizes), TensorView(ids), TensorView(per_rank), 2));
    std::vector<uint16_t> slabs;
    for (int64_t p = 0; p < r; ++p)
      for (int64_t i = 0; i < r * kChunk * 2; ++i) {
        const bool mine = i / (kChunk * 2) == me;
        ASSERT_EQ(outs[at(p)][at(i)], mine ? p + 1 : 0);
        slabs.push_back(outs[at(p)][at(i)]);
      }
    const Longs back_ids = {me, 3 + me, 6 + me};
    std::vector<uint16_t> back(in.size());
    finish(alltoallv_dynamic_combine(
        TensorView(back.data(), r * kChunk * 2, DType::kBF16),
        TensorView(slabs.data(), r * r * kChunk * 2, DType::kBF16),
        TensorView(gathered), TensorView(back_ids), TensorView(per_rank), 2));
    EXPECT_EQ(back, in);
  });
}

// Gapped lists, empty chunks, destinations without chunks, and chunks for
// several.
TEST(MoeDynamic, RandomChunksEqualTheDefinition) {
  run_bound(4, [](int me) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      std::mt19937_64 random(seed);
      const auto pick = [&](int high) {
        return std::uniform_int_distribution<int>(0, high)(random);
      };
      const int64_t chunks = 1 + pick(6), row = 1 + pick(3);
      std::vector<Longs> sizes(4);
      std::vector<std::vector<Longs>> lists(4, std::vector<Longs>(4));
      for (size_t p = 0; p < 4; ++p)
        for (int64_t c = 0; c < chunks; ++c) {
          sizes[p].push_back(pick(2) == 0 ? 0 : pick(5));
          for (size_t d = 0; d < 4; ++d)
            if (pick(1) == 0 && d != 3) lists[p][d].push_back(c);
        }
      const auto offset = [&](size_t p, int64_t c) {
        return row * std::accumulate(sizes[p].begin(), sizes[p].begin() + c,
                                     int64_t{0});
      };
      const auto value = [](size_t p, int64_t i) {
        return static_cast<int32_t>(p * 1000 + at(i));
      };
      const size_t my = at(me);
      Longs ids, per_rank;
      for (const Longs& list : lists[my]) {
        ids.insert(ids.end(), list.begin(), list.end());
        per_rank.push_back(static_cast<int64_t>(list.size()));
      }
      Ints in;
      for (int64_t i = 0; i < offset(my, chunks); ++i)
        in.push_back(value(my, i));
      std::vector<Ints> outs, expected;
      std::vector<TensorView> views;
      for (size_t p = 0; p < 4; ++p) {
        expected.emplace_back(at(offset(p, chunks)), kKept);
        for (const int64_t c : lists[p][my])
          for (int64_t i = offset(p, c); i < offset(p, c + 1); ++i)
            expected.back()[at(i)] = value(p, i);
        outs.emplace_back(expected.back().size(), kKept);
      }
      for (Ints& out : outs) views.emplace_back(out);
      Longs gathered(at(4 * chunks), -1);
      finish(alltoallv_dynamic_dispatch(
          views, TensorView(gathered), TensorView(in), TensorView(sizes[my]),
          TensorView(ids), TensorView(per_rank), row));
      EXPECT_EQ(outs, expected);
      for (size_t p = 0; p < 4; ++p)
        for (int64_t c = 0; c < chunks; ++c)
          EXPECT_EQ(gathered[p * at(chunks) + at(c)], sizes[p][at(c)]);
    }
  });
}

// Two ranks return a chunk: the copy of the higher one stays.
TEST(MoeDynamic, TheHighestRanksCopyStays) {
  run_bound(3, [](int me) {
    const Longs sizes = {2, 0, 0};
    Longs ids, per_rank = {0, 0, 0};
    if (me != 0) ids = {0}, per_rank = {1, 0, 0};
    const Ints in(6, me * 5);
    Ints out(2, kKept);
    finish(alltoallv_dynamic_combine(TensorView(out), TensorView(in),
                                     TensorView(sizes), TensorView(ids),
                                     TensorView(per_rank), 1));
    EXPECT_EQ(out, Ints(2, me == 0 ? 10 : kKept));
  });
}

TEST(MoeDynamic, BadArgumentsAreOneErrorOnAllRanks) {
  struct Bad {
    Reason reason;
    const char* text;
    std::function<void(int me, Longs* sizes, Longs* ids, Longs* per_rank,
                       size_t* room)>
        change;
  };
  const Bad all[] = {
      {Reason::kIndexMap, "input_split_indices has 0 for rank 0",
       [](int me, auto*, Longs* ids, auto*, auto*) {
         if (me == 1) *ids = {1, 0, 2, 3};
       }},
      {Reason::kIndexMap, "input_split_indices has 1 for rank 0",
       [](int me, auto*, Longs* ids, auto*, auto*) {
         if (me == 0) *ids = {1, 1, 2, 3};
       }},
      {Reason::kIndexMap, "input_split_indices has 4 for rank 1",
       [](int me, auto*, Longs* ids, auto*, auto*) {
         if (me == 0) *ids = {0, 1, 2, 4};
       }},
      {Reason::kIndexMap, "input_split_sizes has -1 at position 2",
       [](int me, Longs* sizes, auto*, auto*, auto*) {
         if (me == 1) (*sizes)[2] = -1;
       }},
      {Reason::kIndexMap, "input_split_indices_per_rank has 5",
       [](int me, auto*, auto*, Longs* per_rank, auto*) {
         if (me == 0) (*per_rank)[0] = 5;
       }},
      {Reason::kIndexMap, "1 ids for no rank",
       [](int me, auto*, auto*, Longs* per_rank, auto*) {
         if (me == 1) (*per_rank)[1] = 1;
       }},
      {Reason::kCapacity, "elements of input",
       [](int me, Longs* sizes, auto*, auto*, auto*) {
         if (me == 0) (*sizes)[3] = 99;
       }},
      // The first output has room, the second has not.
      {Reason::kCapacity, "output 1 needs 8 elements",
       [](int me, auto*, auto*, auto*, size_t* room) {
         if (me == 1) *room = 7;
       }},
  };
  run_bound(2, [&](int me) {
    for (const Bad& bad : all) {
      SCOPED_TRACE(bad.text);
      Longs sizes = {2, 2, 2, 2}, ids = {0, 1, 2, 3}, per_rank = {2, 2};
      size_t room = 8;
      bad.change(me, &sizes, &ids, &per_rank, &room);
      Ints in(8, 1), first(8, kKept), second(room, kKept);
      const TensorView outs[] = {TensorView(first), TensorView(second)};
      Longs gathered(8, kKept);
      expect_reason(
          alltoallv_dynamic_dispatch(outs, TensorView(gathered), TensorView(in),
                                     TensorView(sizes), TensorView(ids),
                                     TensorView(per_rank), 1)
              .status(),
          bad.reason, bad.text);
      EXPECT_EQ(first, Ints(8, kKept));
      EXPECT_EQ(gathered, Longs(8, kKept));
      finish(barrier());
    }
    // A number of chunks that differs.
    Longs sizes(me == 0 ? 2 : 1, 1), ids = {0}, per_rank = {1, 0},
                                     gathered(sizes.size() * 2);
    Ints in(2), out(2);
    const TensorView outs[] = {TensorView(out), TensorView(out)};
    const auto call = [&](TensorView of, absl::Span<const TensorView> to,
                          int64_t row) {
      return alltoallv_dynamic_dispatch(to, TensorView(gathered),
                                        TensorView(in), of, TensorView(ids),
                                        TensorView(per_rank), row)
          .status();
    };
    expect_reason(call(TensorView(sizes), outs, 1), Reason::kCallMismatch,
                  "different numbers of chunks");
    expect_reason(call(TensorView(in), outs, 1), Reason::kMetadataType,
                  "input_split_sizes");
    expect_reason(call(TensorView(sizes), {}, 1), Reason::kInvalidArgument,
                  "one output for each rank");
    expect_reason(call(TensorView(sizes), outs, 0), Reason::kInvalidArgument,
                  "no elements");
    const Ints odd(3);
    const Longs two(2, 0);
    expect_reason(alltoallv_dynamic_combine(TensorView(out), TensorView(odd),
                                            TensorView(two), TensorView(ids),
                                            TensorView(per_rank), 1)
                      .status(),
                  Reason::kInvalidArgument, "one slab for each rank");
    finish(barrier());
  });
}

}  // namespace
}  // namespace distwrap::testing
