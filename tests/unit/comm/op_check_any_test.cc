// The rules of v forms, scans and factors.
#include "unit/comm/op_check_fixture.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace distwrap::comm {
namespace {

using OpCheckAny = OpCheck;

// An extension says where the bytes lie: only the counts are judged.
TEST_F(OpCheckAny, CountsWhosePlacesAnExtensionKnows) {
  const std::vector<int64_t> counts{1, 2, 0, 3}, own_differs{1, 1, 0, 3},
      three{1, 2, 3}, negative{1, 2, -1, 3},
      huge{1, 2, std::numeric_limits<int64_t>::max(), 3};
  const auto place = [&](const std::vector<int64_t>& in,
                         const std::vector<int64_t>& out) {
    return Op{.kind = DW_OP_ALL_TO_ALL,
              .out = TensorView(nullptr, 0, DType::kU8),
              .in = TensorView(nullptr, 0, DType::kU8),
              .per_rank = true,
              .out_counts = {out},
              .in_counts = {in},
              .placed_by_extension = true};
  };
  const CheckedCall good = check_any(place(counts, {5, 2, 0, 0}));
  EXPECT_EQ(good.fault, Fault::kNone);
  EXPECT_EQ(good.in_sum, 6);
  EXPECT_EQ(good.out_sum, 7);
  EXPECT_FALSE(good.in_place);
  EXPECT_EQ(any_fault(place(three, counts)), Fault::kInputCountsLength);
  EXPECT_EQ(any_fault(place(counts, three)), Fault::kOutputCountsLength);
  EXPECT_EQ(any_fault(place(negative, counts)), Fault::kInputPieceNegative);
  EXPECT_EQ(any_fault(place(counts, negative)), Fault::kOutputPieceNegative);
  EXPECT_EQ(any_fault(place(huge, counts)), Fault::kInputPiecesExceed);
  EXPECT_EQ(any_fault(place(counts, huge)), Fault::kOutputPiecesExceed);
  EXPECT_EQ(any_fault(place(counts, own_differs)), Fault::kOwnPieceDiffers);
}

// The rules of a v form: for each rule a call that breaks only that one.
TEST_F(OpCheckAny, CountsPerRank) {
  const std::vector<int64_t> counts{1, 2, 0, 3}, displs{6, 4, 0, 0};
  const Counts packed{counts}, placed{counts, displs};
  const auto gather = [&](const Counts& c, int64_t out, int64_t in) {
    return Op{.kind = DW_OP_ALL_GATHER,
              .out = a(out),
              .in = b(in),
              .per_rank = true,
              .out_counts = c};
  };
  EXPECT_EQ(any_fault(gather(packed, 6, 2)), Fault::kNone);
  EXPECT_EQ(any_fault(gather(packed, 8, 2)), Fault::kNone) << "room is legal";
  EXPECT_EQ(any_fault(gather(placed, 8, 2)), Fault::kNone);
  EXPECT_EQ(any_fault(gather(packed, 5, 2)), Fault::kOutputPiecesExceed);
  EXPECT_EQ(any_fault(gather(placed, 6, 2)), Fault::kOutputPiecesExceed);
  EXPECT_EQ(any_fault(gather(packed, 6, 1)), Fault::kOwnPieceDiffers);
  const std::vector<int64_t> three{1, 2, 3}, negative{1, 2, -1, 3},
      huge{1, 2, std::numeric_limits<int64_t>::max(), 3},
      overlapping{0, 2, 0, 3};
  EXPECT_EQ(any_fault(gather({three}, 6, 2)), Fault::kOutputCountsLength);
  EXPECT_EQ(any_fault(gather({}, 6, 2)), Fault::kOutputCountsLength);
  EXPECT_EQ(any_fault(gather({counts, three}, 8, 2)),
            Fault::kOutputDisplsLength);
  EXPECT_EQ(any_fault(gather({negative}, 6, 2)), Fault::kOutputPieceNegative);
  EXPECT_EQ(any_fault(gather({counts, negative}, 8, 2)),
            Fault::kOutputPieceNegative);
  EXPECT_EQ(any_fault(gather({huge}, 6, 2)), Fault::kOutputPiecesExceed);
  EXPECT_EQ(any_fault(gather({counts, overlapping}, 8, 2)),
            Fault::kPiecesOverlap);

  const auto scatter = [&](const Counts& c, int64_t in, int64_t out) {
    return Op{.kind = DW_OP_REDUCE_SCATTER,
              .reduce = DW_REDUCE_SUM,
              .out = a(out),
              .in = b(in),
              .per_rank = true,
              .in_counts = c};
  };
  EXPECT_EQ(any_fault(scatter(packed, 6, 2)), Fault::kNone);
  EXPECT_EQ(any_fault(scatter({counts, overlapping}, 8, 2)), Fault::kNone)
      << "reading a piece twice is legal";
  EXPECT_EQ(any_fault(scatter(packed, 6, 3)), Fault::kOwnPieceDiffers);
  EXPECT_EQ(any_fault(scatter({three}, 6, 2)), Fault::kInputCountsLength);
  EXPECT_EQ(any_fault(scatter({negative}, 6, 2)), Fault::kInputPieceNegative);
  EXPECT_EQ(any_fault(scatter(packed, 5, 2)), Fault::kInputPiecesExceed);
  EXPECT_EQ(any_fault(scatter({counts, three}, 8, 2)),
            Fault::kInputDisplsLength);

  // At the root only.
  EXPECT_EQ(
      any_fault(
          {.kind = DW_OP_GATHER, .in = b(2), .peer = 0, .per_rank = true}),
      Fault::kNone);
  EXPECT_EQ(any_fault({.kind = DW_OP_GATHER,
                       .out = a(6),
                       .in = b(2),
                       .peer = kRank,
                       .per_rank = true}),
            Fault::kOutputCountsLength);
  EXPECT_EQ(any_fault({.kind = DW_OP_ALL_TO_ALL,
                       .out = a(6),
                       .in = b(8),
                       .per_rank = true,
                       .out_counts = packed,
                       .in_counts = {three}}),
            Fault::kInputCountsLength);
}

TEST_F(OpCheckAny, PiecesInPlace) {
  const std::vector<int64_t> counts{1, 2, 0, 3};
  const Op gather{.kind = DW_OP_ALL_GATHER,
                  .out = a(6),
                  .in = a(2, 1),
                  .per_rank = true,
                  .out_counts = {counts}};
  EXPECT_TRUE(check_any(gather).in_place);
  Op elsewhere = gather;
  elsewhere.in = a(2, 2);
  EXPECT_EQ(any_fault(elsewhere), Fault::kOverlap);
  const Op scatter{.kind = DW_OP_REDUCE_SCATTER,
                   .reduce = DW_REDUCE_SUM,
                   .out = a(2, 1),
                   .in = a(6),
                   .per_rank = true,
                   .in_counts = {counts}};
  EXPECT_TRUE(check_any(scatter).in_place);
  const Op exchange{.kind = DW_OP_ALL_TO_ALL,
                    .out = a(6),
                    .in = a(6),
                    .per_rank = true,
                    .out_counts = {counts},
                    .in_counts = {counts}};
  EXPECT_EQ(any_fault(exchange), Fault::kOverlap);
}

TEST_F(OpCheckAny, ReductionsFitTheElementType) {
  std::vector<int64_t> ints(8);
  const TensorView i(ints);
  const TensorView truth(a_.data(), 8, DType::kBool);
  const auto reduce = [](ReduceOp op, TensorView t) {
    return Op{.kind = DW_OP_ALL_REDUCE,
              .reduce = op.kind(),
              .out = t,
              .in = t,
              .op = op};
  };
  EXPECT_EQ(any_fault(reduce(ReduceOp::kBand, i)), Fault::kNone);
  EXPECT_EQ(any_fault(reduce(ReduceOp::kBand, truth)), Fault::kNone);
  EXPECT_EQ(any_fault(reduce(ReduceOp::kBxor, a(8))),
            Fault::kReductionForDType);
  EXPECT_EQ(any_fault(reduce(ReduceOp::kAvg, i)), Fault::kNone);
  EXPECT_EQ(any_fault(reduce(ReduceOp::kAvg, truth)),
            Fault::kReductionForDType);
  EXPECT_EQ(any_fault(reduce(ReduceOp::kPremulSum, a(8))), Fault::kNoFactor);
  EXPECT_EQ(any_fault(reduce(ReduceOp::premul_sum(0.5), a(8))), Fault::kNone);
  EXPECT_EQ(any_fault(reduce(ReduceOp::premul_sum(2), i)),
            Fault::kReductionForDType);
  EXPECT_EQ(any_fault(reduce(ReduceOp::premul_sum(b(1)), a(8))), Fault::kNone);
  EXPECT_EQ(any_fault(reduce(ReduceOp::premul_sum(b(2)), a(8))),
            Fault::kFactorUnusable);
  const TensorView elsewhere(b(1).data(), 1, b(1).dtype(), Device{2, 1});
  EXPECT_EQ(any_fault(reduce(ReduceOp::premul_sum(elsewhere), a(8))),
            Fault::kFactorElsewhere);
  double factor = 2;
  EXPECT_EQ(
      any_fault(reduce(ReduceOp::premul_sum(TensorView(&factor, 1)), a(8))),
      Fault::kFactorDType);
  Op scan = reduce(ReduceOp::kAvg, a(8));
  scan.kind = DW_OP_SCAN;
  EXPECT_EQ(any_fault(scan), Fault::kAverageInScan);
  scan.reduce = DW_REDUCE_SUM;
  scan.exclusive = true;
  EXPECT_EQ(any_fault(scan), Fault::kNone);
}

TEST(ReduceOpValue, TheFactorIsPartOfIt) {
  float factor = 2;
  const TensorView tensor(&factor, 1);
  EXPECT_EQ(ReduceOp::premul_sum(0.5), ReduceOp::premul_sum(0.5));
  EXPECT_NE(ReduceOp::premul_sum(0.5), ReduceOp::premul_sum(0.25));
  EXPECT_NE(ReduceOp::premul_sum(2), ReduceOp::premul_sum(tensor));
  EXPECT_EQ(ReduceOp::premul_sum(tensor), ReduceOp::premul_sum(tensor));
  EXPECT_NE(ReduceOp(ReduceOp::kSum), ReduceOp::kMax);
}

}  // namespace
}  // namespace distwrap::comm
