#include "bench/case.h"

#include "sdk/half.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace distwrap::bench {
namespace {

Case make(Operation op, int rank, int ranks, int64_t bytes,
          DType dtype = DType::kF32) {
  Spec spec;
  spec.op = op;
  spec.rank = rank;
  spec.ranks = ranks;
  spec.bytes = bytes;
  spec.dtype = dtype;
  return *Case::make(spec);
}

TEST(Case, BytesAreThoseOfTheLargerBuffer) {
  const Case gather = make(Operation::kAllGather, 0, 4, 4096);
  EXPECT_EQ(gather.in().count(), 256);
  EXPECT_EQ(gather.out().count(), 1024);
  const Case scatter = make(Operation::kReduceScatter, 0, 4, 4096);
  EXPECT_EQ(scatter.in().count(), 1024);
  EXPECT_EQ(scatter.out().count(), 256);
  const Case all_to_all = make(Operation::kAllToAll, 0, 4, 4096);
  EXPECT_EQ(all_to_all.in().count(), 1024);
  EXPECT_EQ(all_to_all.out().count(), 1024);
}

TEST(Case, BlocksRoundUp) {
  const Case gather = make(Operation::kAllGather, 0, 3, 40);
  EXPECT_EQ(gather.in().count(), 4);  // ceil(10 / 3)
  EXPECT_EQ(gather.out().count(), 12);
  EXPECT_EQ(make(Operation::kAllReduce, 0, 2, 1).in().count(), 1);
  EXPECT_EQ(make(Operation::kBarrier, 0, 2, 0).in().count(), 0);
}

TEST(Case, InputsTellRankAndPosition) {
  const Case c = make(Operation::kAllReduce, 3, 4, 800, DType::kI64);
  const auto* in = static_cast<const int64_t*>(c.in().data());
  EXPECT_EQ(in[0], 93);
  EXPECT_EQ(in[4], 0);
  EXPECT_EQ(in[99], (93 + 99) % 97);
}

TEST(Case, AnOutputNobodyWroteIsAllWrong) {
  for (DType dtype : {DType::kF32, DType::kI64, DType::kU8, DType::kF64,
                      DType::kF16, DType::kBF16}) {
    const Case c = make(Operation::kAllReduce, 0, 2, 64 * 8, dtype);
    EXPECT_EQ(c.wrong(), c.out().count());
  }
}

// bf16 represents integers up to 256 exactly, so no order of the ranks rounds.
TEST(Case, SumsOfSixteenBitsAreExact) {
  constexpr int kRanks = 5;
  Case c = make(Operation::kAllReduce, 0, kRanks, 300, DType::kBF16);
  auto* const out = static_cast<uint16_t*>(c.out().data());
  for (int i = 0; i < 150; ++i) {
    float sum = 0;
    for (int rank = 0; rank < kRanks; ++rank)
      sum = dw_sdk::bf16_to_f32(
          dw_sdk::f32_to_bf16(sum + static_cast<float>((31 * rank + i) % 51)));
    out[i] = dw_sdk::f32_to_bf16(sum);
  }
  EXPECT_EQ(c.wrong(), 0);
  out[7] ^= 1;
  EXPECT_EQ(c.wrong(), 1);
}

TEST(Case, CountsWhatIsWrong) {
  Case c = make(Operation::kAllToAll, 1, 2, 400);  // blocks of 50
  auto* out = static_cast<float*>(c.out().data());
  for (int i = 0; i < 100; ++i) {
    out[i] = static_cast<float>((31 * (i / 50) + 50 + i % 50) % 97);
  }
  EXPECT_EQ(c.wrong(), 0);
  out[0] += 1;
  out[99] -= 1;
  EXPECT_EQ(c.wrong(), 2);
  c.spoil_output();
  EXPECT_EQ(c.wrong(), 100);
}

TEST(Case, ReductionsOfEveryKind) {
  for (ReduceOp reduce :
       {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
    Spec spec;
    spec.ranks = 3;
    spec.bytes = 64 * 4;
    spec.dtype = DType::kI32;
    spec.reduce = reduce;
    std::vector<std::vector<int32_t>> inputs;
    for (spec.rank = 0; spec.rank < 3; ++spec.rank) {
      const auto c = Case::make(spec);
      const auto* in = static_cast<const int32_t*>(c->in().data());
      inputs.emplace_back(in, in + 64);
    }
    spec.rank = 1;
    const auto c = Case::make(spec);
    auto* out = static_cast<int32_t*>(c->out().data());
    for (size_t i = 0; i < 64; ++i) {
      int32_t result = inputs[0][i];
      for (size_t rank = 1; rank < 3; ++rank) {
        const int32_t next = inputs[rank][i];
        if (reduce == ReduceOp::kSum) result += next;
        if (reduce == ReduceOp::kProduct) result *= next;
        if (reduce == ReduceOp::kMin) result = std::min(result, next);
        if (reduce == ReduceOp::kMax) result = std::max(result, next);
      }
      out[i] = result;
    }
    EXPECT_EQ(c->wrong(), 0) << static_cast<int>(reduce);
  }
}

TEST(Case, WritingAroundTheOutputIsWrong) {
  Case c = make(Operation::kBroadcast, 0, 1, 400);
  EXPECT_EQ(c.wrong(), 0);
  Case other = make(Operation::kExscan, 0, 1, 400);
  EXPECT_EQ(other.wrong(), 0);  // an output that must stay unchanged
  auto* out = static_cast<float*>(other.out().data());
  out[100] = 1;
  EXPECT_GE(other.wrong(), 3);
  out[-1] = 1;
  EXPECT_GE(other.wrong(), 6);
}

TEST(Case, AChangedInputIsWrong) {
  Case c = make(Operation::kExscan, 0, 2, 400);
  EXPECT_EQ(c.wrong(), 0);
  static_cast<float*>(c.in().data())[5] += 1;
  EXPECT_EQ(c.wrong(), 1);
}

TEST(Case, ABroadcastIsInPlaceOnItsRootAndStaysWhole) {
  Case root = make(Operation::kBroadcast, 0, 2, 400);
  EXPECT_EQ(root.in().data(), root.out().data());
  root.spoil_output();
  EXPECT_EQ(root.wrong(), 0);
  const Case other = make(Operation::kBroadcast, 1, 2, 400);
  EXPECT_NE(other.in().data(), other.out().data());
  EXPECT_EQ(other.wrong(), 100);
}

TEST(Case, TheOddRankOfPingPongRests) {
  EXPECT_TRUE(make(Operation::kSendRecv, 1, 3, 8).active());
  EXPECT_FALSE(make(Operation::kSendRecv, 2, 3, 8).active());
  EXPECT_EQ(make(Operation::kSendRecv, 2, 3, 8).wrong(), 0);
  EXPECT_EQ(make(Operation::kSendRecv, 3, 4, 8).partner(), 2);
}

TEST(Case, TooMuchMemoryIsAnError) {
  Spec spec;
  spec.bytes = int64_t{1} << 60;
  EXPECT_EQ(Case::make(spec).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace distwrap::bench
