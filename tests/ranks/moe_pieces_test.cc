// Exchanges of one piece for each rank: sizes that only the sender knows, sizes
// that both sides state, and the prepared form.
#include "distwrap/alltoallv_op.h"
#include "distwrap/moe_dynamic.h"
#include "facade/prepared_exchange.h"
#include "ranks/moe_ranks.h"

#include <numeric>
#include <thread>

namespace distwrap::testing {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

using Longs = std::vector<int64_t>;
using Ints = std::vector<int32_t>;
constexpr int32_t kKept = -7;

// Rank s sends d + 2 s elements to rank d, or none where their sum is odd.
int64_t count_of(int s, int d) { return (s + d) % 2 == 1 ? 0 : d + 2 * s + 1; }
int32_t value_of(int s, int d, int64_t i) {
  return static_cast<int32_t>(1000 * s + 100 * d + i);
}

struct Outputs {
  Outputs(int ranks, int me, int64_t more) {
    for (int p = 0; p < ranks; ++p)
      data.emplace_back(at(count_of(p, me) + more), kKept);
    for (Ints& one : data) views.emplace_back(one);
  }
  // The elements behind those that came stay.
  void expect(int me) const {
    for (int p = 0; p < static_cast<int>(data.size()); ++p)
      for (int64_t i = 0; i < static_cast<int64_t>(data[at(p)].size()); ++i)
        EXPECT_EQ(data[at(p)][at(i)],
                  i < count_of(p, me) ? value_of(p, me, i) : kKept)
            << "from rank " << p << " at " << i;
  }
  std::vector<Ints> data;
  std::vector<TensorView> views;
};

Longs counts_from(int me, int ranks) {
  Longs counts;
  for (int d = 0; d < ranks; ++d) counts.push_back(count_of(me, d));
  return counts;
}
Longs counts_to(int me, int ranks) {
  Longs counts;
  for (int s = 0; s < ranks; ++s) counts.push_back(count_of(s, me));
  return counts;
}
Ints packed(int me, int ranks) {
  Ints all;
  for (int d = 0; d < ranks; ++d)
    for (int64_t i = 0; i < count_of(me, d); ++i)
      all.push_back(value_of(me, d, i));
  return all;
}

TEST(MoePieces, SizesThatOnlyTheSenderKnows) {
  for (const int ranks : {1, 2, 5})
    run_bound(ranks, [&](int me) {
      for (const bool async : {false, true}) {
        Longs counts = counts_from(me, ranks), received(at(ranks), kKept);
        std::vector<Ints> ins;
        for (int d = 0; d < ranks; ++d) {
          ins.emplace_back(at(count_of(me, d) + 2));  // more than is sent
          for (size_t i = 0; i < ins.back().size(); ++i)
            ins.back()[i] = value_of(me, d, static_cast<int64_t>(i));
        }
        Outputs outs(ranks, me, 3);
        absl::StatusOr<Work> work;
        {
          // The lists need not outlive the call.
          std::vector<TensorView> in_views, out_views = outs.views;
          for (Ints& in : ins) in_views.emplace_back(in);
          work = alltoallv_dynamic(out_views, TensorView(received), in_views,
                                   TensorView(counts), {.async = async});
        }
        // The counts were read when the call executed.
        std::fill(counts.begin(), counts.end(), int64_t{1} << 40);
        finish(work);
        outs.expect(me);
        EXPECT_EQ(received, counts_to(me, ranks));

        Ints in = packed(me, ranks);
        Outputs again(ranks, me, 0);
        Longs lengths = counts_from(me, ranks);
        received.assign(at(ranks), kKept);
        work = alltoallv_dynamic_split(again.views, TensorView(received),
                                       TensorView(in), TensorView(lengths),
                                       {.async = async});
        lengths.assign(at(ranks), -1);
        finish(work);
        again.expect(me);
        EXPECT_EQ(received, counts_to(me, ranks));
      }
    });
}

TEST(MoePieces, ASubgroupExchangesByItself) {
  run_bound(4, [](int me) {
    const absl::StatusOr<Group> half =
        split_group({.split_ranks = {{0, 2}, {1, 3}}});
    ASSERT_TRUE(half.ok()) << half.status();
    const int mine = me / 2;
    const Longs lengths = {1, 2};
    Longs received(2);
    Ints in = {10 * me, 10 * me + 1, 10 * me + 2};
    Ints first(3, kKept), second(3, kKept);
    const TensorView outs[] = {TensorView(first), TensorView(second)};
    finish(alltoallv_dynamic_split(outs, TensorView(received), TensorView(in),
                                   TensorView(lengths), {.group = *half}));
    const int low = me % 2;
    if (mine == 0) {
      EXPECT_EQ(first, (Ints{10 * low, kKept, kKept}));
      EXPECT_EQ(second, (Ints{10 * (low + 2), kKept, kKept}));
    } else {
      EXPECT_EQ(first, (Ints{10 * low + 1, 10 * low + 2, kKept}));
      EXPECT_EQ(second, (Ints{10 * (low + 2) + 1, 10 * (low + 2) + 2, kKept}));
    }
  });
}

// Rows of one and of several columns, with counts that both sides state.
TEST(MoePieces, SizesThatBothSidesState) {
  struct Grid {
    int ranks;
    int64_t columns, base, step;
  };
  for (const Grid grid : {Grid{2, 1, 8, 0}, Grid{3, 1, 5, 64}, Grid{3, 4, 2, 3},
                          Grid{4, 16, 1, 1}, Grid{2, 3, 0, 0}})
    run_bound(grid.ranks, [&](int me) {
      // (r R + j + 1) base, and step more for each rank.
      const auto rows = [&](int s, int d) {
        return (s * grid.ranks + d + 1) * grid.base + s * grid.step;
      };
      Longs sends, receives;
      Ints in, expected;
      for (int r = 0; r < grid.ranks; ++r) {
        sends.push_back(rows(me, r));
        receives.push_back(rows(r, me));
        for (int64_t i = 0; i < sends.back() * grid.columns; ++i)
          in.push_back(value_of(me, r, i));
        for (int64_t i = 0; i < receives.back() * grid.columns; ++i)
          expected.push_back(value_of(r, me, i));
      }
      const auto total = [](const Longs& counts) {
        return std::accumulate(counts.begin(), counts.end(), int64_t{0});
      };
      expected.resize(expected.size() + at(grid.columns), kKept);  // a row more
      for (const bool async : {false, true}) {
        Ints out(expected.size(), kKept);
        const int64_t in_shape[] = {total(sends), grid.columns},
                      out_shape[] = {total(receives) + 1, grid.columns};
        finish(device_alltoallv_single(
            TensorView(out.data(), out_shape), TensorView(in.data(), in_shape),
            TensorView(receives), TensorView(sends),
            {{"num_blocks", "4"}, {"block_scheduling", "warp"}},
            {.async = async}));
        EXPECT_EQ(out, expected);
      }
    });
}

// The pieces for all other ranks are empty.
TEST(MoePieces, NothingForOtherRanks) {
  run_bound(3, [](int me) {
    Longs counts(3, 0);
    counts[at(me)] = 2;
    Ints in = {me, me + 1}, out(2);
    finish(device_alltoallv_single(TensorView(out), TensorView(in),
                                   TensorView(counts), TensorView(counts)));
    EXPECT_EQ(out, in);
  });
}

// ---- the prepared form ----

// Rows of a call: rank s sends (s + d + call) % 4 rows of 2 numbers to rank d.
int64_t rows_of_call(int s, int d, int call) { return (s + d + call) % 4; }

template <class Op>
void expect_calls(Op& op, int me, int ranks, int calls) {
  std::vector<TensorView> views;
  std::vector<Ints> all;
  for (int call = 0; call < calls; ++call) {
    Ints x, expected;
    Longs outs, ins;
    for (int r = 0; r < ranks; ++r) {
      ins.push_back(rows_of_call(me, r, call));
      outs.push_back(rows_of_call(r, me, call));
      for (int64_t i = 0; i < 2 * ins.back(); ++i)
        x.push_back(value_of(me, r, i + call));
      for (int64_t i = 0; i < 2 * outs.back(); ++i)
        expected.push_back(value_of(r, me, i + call));
    }
    const int64_t shape[] = {static_cast<int64_t>(x.size()) / 2, 2};
    const absl::StatusOr<TensorView> out =
        op.run(TensorView(x.data(), shape), outs, ins, {});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(out->extent(1), 2);
    views.push_back(*out);
    all.push_back(expected);
    EXPECT_EQ(values_of<int32_t>(views.back()), expected);
    // The rows of the call before are still there.
    if (call > 0) {
      EXPECT_EQ(values_of<int32_t>(views[at(call) - 1]), all[at(call) - 1]);
    }
  }
}

TEST(MoePieces, SplitsThatChangeInEachCallOfAPreparedExchange) {
  run_bound(3, [](int me) {
    // A window after the window of an exchange that was closed.
    for (int round = 0; round < 2; ++round) {
      facade::PreparedExchange op({}, 12 * 8, 3 * 8);
      ASSERT_TRUE(op.setup().ok());
      expect_calls(op, me, 3, 9);
      ASSERT_TRUE(op.close().ok());
    }
  });
}

// Numbers of calls are of 64 bits.
TEST(MoePieces, NumbersOfCallsBeyond32Bits) {
  run_bound(2, [](int me) {
    facade::PreparedExchange op({}, 64, 32, (uint64_t{1} << 32) - 3);
    ASSERT_TRUE(op.setup().ok());
    expect_calls(op, me, 2, 6);
    // A slow peer: the others wait for it in close.
    if (me == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_TRUE(op.close().ok());
  });
}

TEST(MoePieces, RowsFromTheBufferOfAPreparedExchange) {
  run_bound(3, [](int me) {
    AllToAllVOp op({}, 64, 32);
    const Longs one(3, 1), none(3, 0);
    expect_reason(op.alltoallv({}, one, one).status(), Reason::kNotInitialized,
                  "not set up");
    expect_reason(op.send_buffer(1, DType::kI64).status(),
                  Reason::kNotInitialized);
    ASSERT_TRUE(op.setup().ok());
    expect_reason(op.setup(), Reason::kAlreadyInitialized);

    const absl::StatusOr<TensorView> buffer = op.send_buffer(3, DType::kI64);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    for (int64_t r = 0; r < 3; ++r)
      static_cast<int64_t*>(buffer->data())[r] = 10 * me + r;
    absl::StatusOr<TensorView> out = op.alltoallv_from_buffer(one, one);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(values_of<int64_t>(*out), (Longs{me, 10 + me, 20 + me}));
    out = op.alltoallv_from_buffer(none, none);
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(out->count(), 0);

    // Beyond what was prepared; nothing is sent.
    expect_reason(op.send_buffer(9, DType::kI64).status(),
                  Reason::kInvalidArgument, "capacity");
    Longs x(9);
    const Longs five(3, 5), three(3, 3), minus = {1, -1, 0}, two(2, 1);
    const auto call = [&](const Longs& outs, const Longs& ins) {
      return op.alltoallv(TensorView(x), outs, ins).status();
    };
    expect_reason(call(five, one), Reason::kInvalidArgument, "out_splits");
    expect_reason(call(one, five), Reason::kInvalidArgument, "in_splits");
    expect_reason(call(one, three), Reason::kInvalidArgument, "in_splits");
    expect_reason(call(minus, one), Reason::kInvalidArgument, "out_splits");
    expect_reason(call(one, two), Reason::kInvalidArgument, "wrong size");
    ASSERT_TRUE(op.alltoallv(TensorView(x), one, one).ok());

    ASSERT_TRUE(op.close().ok());
    ASSERT_TRUE(op.close().ok()) << "closing again does nothing";
    expect_reason(op.alltoallv(TensorView(x), one, one).status(),
                  Reason::kNotInitialized);
    // Sizes that differ between ranks.
    AllToAllVOp other({}, 64 + me, 32);
    expect_reason(other.setup(), Reason::kCallMismatch, "different sizes");
    AllToAllVOp impossible({}, -1, 32);
    expect_reason(impossible.setup(), Reason::kInvalidArgument);
  });
}

// Rank 0 expects two rows and gets one: it names rank 1, and the group breaks.
TEST(MoePieces, SplitsOfAPreparedExchangeThatDiffer) {
  run_bound(2, [](int me) {
    AllToAllVOp op({}, 64, 32);
    ASSERT_TRUE(op.setup().ok());
    Longs x(2);
    const Longs outs = me == 0 ? Longs{1, 2} : Longs{1, 1}, ins = {1, 1};
    const absl::Status status = op.alltoallv(TensorView(x), outs, ins).status();
    if (me == 0) {
      expect_reason(status, Reason::kCallMismatch, "16 bytes");
      EXPECT_EQ(error_info(status)->ranks, (std::vector<int>{1}));
      EXPECT_EQ(op.alltoallv(TensorView(x), outs, ins).status(), status);
    }
    EXPECT_FALSE(barrier().ok());
  });
}

}  // namespace
}  // namespace distwrap::testing
