#include "one_rank.h"
#include "sdk/dtype.h"

#include <gtest/gtest.h>

#include <cstring>

namespace distwrap::testing {
namespace {

constexpr int kDtypes = DW_DTYPE_F8E5M2 + 1;
constexpr int64_t kCount = 3;
using Floats = std::vector<float>;

// An operation on f32 between two buffers.
dw_op floats(uint16_t kind, Floats& in, Floats& out,
             uint16_t reduce = DW_REDUCE_NONE) {
  dw_op op = op_of(kind, DW_DTYPE_F32, reduce, kCount);
  op.in.data = in.data();
  op.out.data = out.data();
  return op;
}

uint16_t some_reduction(uint16_t kind) {
  return kind == DW_OP_REDUCE_SCATTER ? DW_REDUCE_SUM : DW_REDUCE_NONE;
}

struct Split {
  uint16_t kind;
  bool in, out;  // the buffers that the ranks divide
};
constexpr Split kSplits[] = {{DW_OP_GATHER, false, true},
                             {DW_OP_ALL_GATHER, false, true},
                             {DW_OP_SCATTER, true, false},
                             {DW_OP_REDUCE_SCATTER, true, false},
                             {DW_OP_ALL_TO_ALL, true, true}};

TEST(Loopback, AcceptsWhatItPromisesAndNothingElse) {
  OneRank one;
  double memory[kCount] = {};
  int accepted = 0;
  for (uint16_t kind = 0; kind <= DW_OP_FENCE + 1; ++kind)
    for (int dtype = 0; dtype < kDtypes; ++dtype)
      for (uint16_t reduce = 0; reduce <= DW_REDUCE_PREMUL_SUM + 1; ++reduce)
        for (const uint32_t flag :
             {0u, DW_FLAG_IN_PLACE, DW_FLAG_CALLER_WAITS, DW_FLAG_CAPTURE,
              DW_FLAG_EXCLUSIVE, DW_FLAG_WITH_SIGNAL, DW_FLAG_SCALE_ON_DEVICE,
              DW_FLAG_PER_RANK, DW_FLAG_PARTS}) {
          dw_op op = op_of(kind, dtype, reduce, kCount);
          op.in.data = op.out.data = memory;
          op.scale = memory;
          op.flags = flag;
          const bool promised = one.promises(op);
          accepted += promised ? 1 : 0;
          ASSERT_EQ(one.query(op), promised ? DW_DONE : DW_UNIMPLEMENTED)
              << kind << ' ' << dtype << ' ' << reduce << ' ' << flag;
        }
  EXPECT_GT(accepted, 1000);
}

TEST(Loopback, CopiesEveryType) {
  OneRank one;
  for (uint16_t kind = DW_OP_BROADCAST; kind <= DW_OP_SCAN; ++kind)
    for (int dtype = 0; dtype < kDtypes; ++dtype)
      for (uint16_t reduce = 0; reduce < DW_REDUCE_PREMUL_SUM; ++reduce) {
        std::string in = "abcdefghijklmnopqrstuvwxyz", out(26, '.');
        dw_op op = op_of(kind, dtype, reduce, kCount);
        op.in.data = in.data();
        op.out.data = out.data();
        if (!one.promises(op)) continue;
        const size_t bytes = 3 * dw_dtype_bytes(op.in.dtype);
        ASSERT_EQ(one.run(op), DW_DONE);
        ASSERT_EQ(out, in.substr(0, bytes) + std::string(26 - bytes, '.'))
            << kind << ' ' << dtype << ' ' << reduce;
      }
}

TEST(Loopback, PremulSumScales) {
  OneRank one;
  const float factor = 0.5f;
  for (const uint16_t kind :
       {DW_OP_REDUCE, DW_OP_ALL_REDUCE, DW_OP_REDUCE_SCATTER, DW_OP_SCAN}) {
    Floats in = {1, 2, -3}, out(kCount);
    dw_op op = floats(kind, in, out, DW_REDUCE_PREMUL_SUM);
    op.scale = &factor;
    EXPECT_EQ(one.run(op), DW_DONE);
    EXPECT_EQ(out, (Floats{0.5f, 1, -1.5f})) << kind;
  }
}

TEST(Loopback, AnExclusiveScanLeavesTheFirstRanksOutputAlone) {
  OneRank one;
  for (const uint16_t reduce : {DW_REDUCE_SUM, DW_REDUCE_PREMUL_SUM}) {
    Floats in = {1, 2, 3}, out = {7, 8, 9};
    dw_op op = floats(DW_OP_SCAN, in, out, reduce);
    op.scale = in.data();
    op.flags = DW_FLAG_EXCLUSIVE;
    EXPECT_EQ(one.run(op), DW_DONE);
    EXPECT_EQ(out, (Floats{7, 8, 9}));
  }
}

TEST(Loopback, PutsThePieceWhereItBelongs) {
  OneRank one;
  const int64_t counts[] = {kCount}, from[] = {1}, to[] = {2};
  for (const Split& split : kSplits) {
    Floats in = {1, 2, 3, 4}, out(6, -1);
    dw_op op = floats(split.kind, in, out, some_reduction(split.kind));
    op.flags = DW_FLAG_PER_RANK;
    if (split.in) {
      op.in.counts = counts;
      op.in.displs = from;
    }
    if (split.out) {
      op.out.counts = counts;
      op.out.displs = to;
    }
    Floats want(6, -1);
    for (size_t i = 0; i < kCount; ++i)
      want[i + (split.out ? 2 : 0)] = in[i + (split.in ? 1 : 0)];
    EXPECT_EQ(one.run(op), DW_DONE);
    EXPECT_EQ(out, want) << split.kind;
    EXPECT_EQ(in, (Floats{1, 2, 3, 4}));
  }
}

TEST(Loopback, TakesLists) {
  OneRank one;
  const int64_t counts[] = {kCount};
  for (const bool counted : {false, true})
    for (const Split& split : kSplits) {
      Floats in = {1, 2, 3}, out(kCount);
      dw_op op = floats(split.kind, in, out, some_reduction(split.kind));
      op.flags = DW_FLAG_PARTS | (counted ? DW_FLAG_PER_RANK : 0);
      void* const in_parts[] = {in.data()};
      void* const out_parts[] = {out.data()};
      if (split.in) {
        op.in.data = nullptr;
        op.in.parts = in_parts;
        op.in.counts = counted ? counts : nullptr;
      }
      if (split.out) {
        op.out.data = nullptr;
        op.out.parts = out_parts;
        op.out.counts = counted ? counts : nullptr;
      }
      EXPECT_EQ(one.run(op), DW_DONE);
      EXPECT_EQ(out, in) << split.kind;
    }
}

TEST(Loopback, InPlaceIsNothingOrAScale) {
  OneRank one;
  const float factor = 2;
  const int64_t counts[] = {kCount}, displs[] = {1};
  Floats all = {9, 1, 2, 3};
  dw_op op = floats(DW_OP_ALL_GATHER, all, all);
  op.in.data = &all[1];
  op.out.counts = counts;
  op.out.displs = displs;
  op.flags = DW_FLAG_IN_PLACE | DW_FLAG_PER_RANK;
  EXPECT_EQ(one.run(op), DW_DONE);
  EXPECT_EQ(all, (Floats{9, 1, 2, 3}));
  op = floats(DW_OP_ALL_REDUCE, all, all, DW_REDUCE_PREMUL_SUM);
  op.scale = &factor;
  op.flags = DW_FLAG_IN_PLACE;
  // `run` submits twice.
  EXPECT_EQ(one.run(op), DW_DONE);
  EXPECT_EQ(all, (Floats{36, 4, 8, 3}));
}

TEST(Loopback, NothingToMoveNeedsNoMemory) {
  OneRank one;
  const int64_t none[] = {0};
  dw_op op = op_of(DW_OP_ALL_GATHER, DW_DTYPE_F32, DW_REDUCE_NONE, 0);
  EXPECT_EQ(one.run(op), DW_DONE);
  op.out.counts = none;
  op.flags = DW_FLAG_PER_RANK;
  EXPECT_EQ(one.run(op), DW_DONE);
}

class LoopbackRefusal : public ::testing::Test {
 protected:
  // After `change` the operation is refused and has written nothing.
  template <class Change>
  void expect(int32_t code, uint16_t kind, uint16_t reduce, Change change) {
    Floats in = {1, 2, 3, 4}, out = {7, 7, 7, 7};
    dw_op op = floats(kind, in, out, reduce);
    change(op);
    EXPECT_EQ(one_.run(op), code);
    EXPECT_EQ(out, Floats(4, 7));
  }
  OneRank one_;
};

TEST_F(LoopbackRefusal, FormsThatAreNotAnnounced) {
  const int64_t counts[] = {kCount}, displs[] = {0};
  void* const parts[] = {nullptr};
  expect(DW_UNIMPLEMENTED, DW_OP_ALL_GATHER, 0,
         [&](dw_op& op) { op.out.counts = counts; });
  expect(DW_UNIMPLEMENTED, DW_OP_ALL_GATHER, 0,
         [&](dw_op& op) { op.out.parts = parts; });
  expect(DW_UNIMPLEMENTED, DW_OP_ALL_GATHER, 0, [&](dw_op& op) {
    op.out.displs = displs;
    op.flags = DW_FLAG_PER_RANK;
  });
  // The input of a gather is not divided.
  expect(DW_UNIMPLEMENTED, DW_OP_ALL_GATHER, 0, [&](dw_op& op) {
    op.in.counts = counts;
    op.flags = DW_FLAG_PER_RANK;
  });
  expect(DW_UNIMPLEMENTED, DW_OP_SCATTER, 0, [&](dw_op& op) {
    op.out.parts = parts;
    op.flags = DW_FLAG_PARTS;
  });
}

TEST_F(LoopbackRefusal, CountsThatDoNotFit) {
  const int64_t fewer[] = {kCount - 1}, counts[] = {kCount}, before[] = {-1},
                at[] = {0};
  const auto per_rank = [](dw_op& op, const int64_t* given,
                           const int64_t* displs) {
    op.out.counts = given;
    op.out.displs = displs;
    op.flags = DW_FLAG_PER_RANK;
  };
  expect(DW_INVALID_ARGUMENT, DW_OP_ALL_GATHER, 0,
         [&](dw_op& op) { per_rank(op, fewer, nullptr); });
  expect(DW_INVALID_ARGUMENT, DW_OP_ALL_GATHER, 0,
         [&](dw_op& op) { per_rank(op, counts, before); });
  expect(DW_INVALID_ARGUMENT, DW_OP_ALL_GATHER, 0, [&](dw_op& op) {
    per_rank(op, fewer, nullptr);
    op.out.count = kCount - 1;  // the input has more
  });
  // Lists have no displacements.
  void* const parts[] = {nullptr};
  expect(DW_INVALID_ARGUMENT, DW_OP_ALL_GATHER, 0, [&](dw_op& op) {
    per_rank(op, counts, at);
    op.out.parts = parts;
    op.flags |= DW_FLAG_PARTS;
  });
  expect(DW_INVALID_ARGUMENT, DW_OP_ALL_GATHER, 0,
         [](dw_op& op) { op.in.count = op.out.count = -1; });
}

TEST_F(LoopbackRefusal, RootsDtypesAndFactors) {
  const auto nothing = [](dw_op&) {};
  for (const uint16_t kind : {DW_OP_BROADCAST, DW_OP_GATHER, DW_OP_SCATTER})
    expect(DW_INVALID_ARGUMENT, kind, 0, [](dw_op& op) { op.peer = 1; });
  expect(DW_INVALID_ARGUMENT, DW_OP_REDUCE, DW_REDUCE_MAX,
         [](dw_op& op) { op.peer = -1; });
  expect(DW_INVALID_ARGUMENT, DW_OP_BROADCAST, 0,
         [](dw_op& op) { op.in.dtype = dw_dtype_of(DW_DTYPE_I32); });
  expect(DW_INVALID_ARGUMENT, DW_OP_ALL_REDUCE, DW_REDUCE_PREMUL_SUM, nothing);
  expect(DW_UNIMPLEMENTED, DW_OP_ALL_REDUCE, DW_REDUCE_BOR, nothing);
  expect(DW_UNIMPLEMENTED, DW_OP_SCAN, DW_REDUCE_AVG, nothing);
  OneRank bare(false);
  Floats in(kCount), out(kCount);
  dw_op op = floats(DW_OP_SCAN, in, out, DW_REDUCE_PREMUL_SUM);
  op.scale = in.data();
  EXPECT_EQ(bare.run(op), DW_UNIMPLEMENTED);
}

TEST_F(LoopbackRefusal, EverythingAfterAnAbort) {
  one_.abort();
  expect(DW_ABORTED, DW_OP_ALL_REDUCE, DW_REDUCE_SUM, [](dw_op&) {});
  EXPECT_EQ(one_.run(op_of(DW_OP_BARRIER, 0, 0, 0)), DW_ABORTED);
}

}  // namespace
}  // namespace distwrap::testing
