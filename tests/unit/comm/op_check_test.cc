#include "comm/op_check.h"

#include "base/error.h"
#include "unit/comm/op_check_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::HasSubstr;

TEST_F(OpCheck, GoodCalls) {
  const Op good[] = {
      {.kind = DW_OP_BARRIER},
      all_reduce(a(8), b(8)),
      {.kind = DW_OP_BROADCAST, .out = a(8), .in = b(8), .peer = kRank},
      // off the root nobody looks at the input
      {.kind = DW_OP_BROADCAST, .out = a(8), .in = b(-5), .peer = 0},
      {.kind = DW_OP_ALL_GATHER, .out = a(8), .in = b(2)},
      {.kind = DW_OP_REDUCE_SCATTER,
       .reduce = DW_REDUCE_SUM,
       .out = a(2),
       .in = b(8)},
      {.kind = DW_OP_ALL_TO_ALL, .out = a(8), .in = b(8)},
      {.kind = DW_OP_REDUCE,
       .reduce = DW_REDUCE_SUM,
       .out = a(8),
       .in = b(8),
       .peer = kRank},
      // off the root nobody looks at the output
      {.kind = DW_OP_REDUCE,
       .reduce = DW_REDUCE_SUM,
       .out = b(-5),
       .in = b(8),
       .peer = 0},
      {.kind = DW_OP_GATHER, .out = a(8), .in = b(2), .peer = kRank},
      {.kind = DW_OP_GATHER, .in = b(2), .peer = 0},
      {.kind = DW_OP_SCATTER, .out = a(2), .in = b(8), .peer = kRank},
      {.kind = DW_OP_SCATTER, .out = a(2), .peer = 0},
      {.kind = DW_OP_SEND, .in = a(8), .peer = 3, .tag = 5},
      {.kind = DW_OP_RECV, .out = a(8), .peer = 0},
  };
  for (const Op& call : good) {
    const CheckedCall checked = check(call);
    EXPECT_EQ(checked.fault, Fault::kNone) << call.kind;
    EXPECT_FALSE(checked.in_place) << call.kind;
  }
}

TEST_F(OpCheck, ZeroElementsNeedNoMemory) {
  const TensorView nothing(nullptr, 0, DType::kF32);
  EXPECT_EQ(fault_of(all_reduce(nothing, nothing)), Fault::kNone);
  EXPECT_EQ(fault_of({.kind = DW_OP_ALL_TO_ALL, .out = nothing, .in = nothing}),
            Fault::kNone);
}

TEST_F(OpCheck, InPlaceRules) {
  EXPECT_TRUE(check(all_reduce(a(8), a(8))).in_place);
  EXPECT_TRUE(
      check({.kind = DW_OP_ALL_GATHER, .out = a(8), .in = a(2, 2 * kRank)})
          .in_place);
  EXPECT_TRUE(check({.kind = DW_OP_REDUCE_SCATTER,
                     .reduce = DW_REDUCE_SUM,
                     .out = a(2, 2 * kRank),
                     .in = a(8)})
                  .in_place);
  EXPECT_EQ(fault_of(all_reduce(a(4), a(4, 1))), Fault::kOverlap);
  EXPECT_EQ(fault_of({.kind = DW_OP_ALL_GATHER, .out = a(8), .in = a(2)}),
            Fault::kOverlap);
  EXPECT_EQ(fault_of({.kind = DW_OP_ALL_TO_ALL, .out = a(8), .in = a(8)}),
            Fault::kOverlap);
}

TEST_F(OpCheck, BadBuffers) {
  const TensorView null(nullptr, 3, DType::kF32);
  EXPECT_EQ(fault_of(all_reduce(null, a(3))), Fault::kNullBuffer);
  EXPECT_EQ(fault_of(all_reduce(a(3), null)), Fault::kNullBuffer);
  EXPECT_EQ(fault_of(all_reduce(a(-1), b(-1))), Fault::kNegativeCount);
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max() / 2;
  EXPECT_EQ(fault_of(all_reduce(a(kHuge), b(kHuge))), Fault::kSizeOverflow);
  // fits into 63 bits, but not behind this address
  EXPECT_EQ(fault_of(all_reduce(
                TensorView(reinterpret_cast<float*>(~0ull - 15), 4), b(4))),
            Fault::kSizeOverflow);
  const TensorView cuda(a_.data(), 3, DType::kF32, Device{2, 0});
  EXPECT_EQ(fault_of(all_reduce(cuda, cuda)), Fault::kOtherDevice);
  const TensorView strange(a_.data(), 3, static_cast<DType>(99));
  EXPECT_EQ(fault_of(all_reduce(strange, strange)), Fault::kUnknownDType);
}

// A communicator of cuda:0 refuses elements on another device, for each
// buffer of each operation.
template <uint16_t kKind>
void refuse_elsewhere(const TensorView& here, const TensorView& there,
                      const Capabilities& capabilities) {
  SCOPED_TRACE(kKind);
  constexpr OpShape kShape = kOpShapes[kKind];
  AnyCall call;
  call.peer = kRank;
  if (kShape.reduces()) call.reduce = DW_REDUCE_SUM;
  for (const bool is_input : {false, true}) {
    const Extent extent = is_input ? kShape.in : kShape.out;
    if (extent == Extent::NONE) continue;
    call.in = is_input ? there : here;
    call.out = is_input ? here : there;
    EXPECT_EQ(check_call<kKind>(call, kRank, kSize, capabilities).fault,
              Fault::kOtherDevice);
    EXPECT_EQ(check_any_call(kKind, call, kRank, kSize, capabilities).fault,
              Fault::kOtherDevice);
    // In list forms one view alone lies elsewhere.
    const std::vector<TensorView> good(4, here),
        bad = {here, here, here, there};
    AnyCall listed = call;
    listed.lists = true;
    if (is_divided(kShape.in)) {
      listed.ins = is_input ? bad : good;
      listed.in = {};
    }
    if (is_divided(kShape.out)) {
      listed.outs = is_input ? good : bad;
      listed.out = {};
    }
    if (is_divided(extent)) {
      EXPECT_EQ(check_any_call(kKind, listed, kRank, kSize, capabilities).fault,
                Fault::kOtherDevice);
    }
  }
}

TEST_F(OpCheck, MemoryOfAnotherDeviceOfTheSameTypeIsRefused) {
  const dw_caps_row row{
      ~uint64_t{0}, ~uint64_t{0}, ~0u, 0, DW_BIT(DW_DEVICE_CUDA), 0, 0, 0};
  const Capabilities of_first(absl::MakeConstSpan(&row, 1),
                              Device{DW_DEVICE_CUDA, 0});
  const TensorView here(a_.data(), 8, DType::kF32, Device{DW_DEVICE_CUDA, 0});
  for (const int32_t number : {1, 2, 8191, 8192, 1 << 23, -1}) {
    SCOPED_TRACE(number);
    const TensorView there(b_.data(), 8, DType::kF32,
                           Device{DW_DEVICE_CUDA, number});
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  if constexpr (value <= DW_OP_RECV)                                 \
    refuse_elsewhere<value>(here, there, of_first);
#include "distwrap/abi/ops.def"
  }
}

TEST_F(OpCheck, ShapesAndStrides) {
  const std::vector<int64_t> shape{2, 3}, row_major{3, 1}, transposed{1, 2},
      negative{2, -3}, huge{int64_t{1} << 32, int64_t{1} << 31};
  const TensorView good(b_.data(), shape, row_major);
  const TensorView strided(b_.data(), shape, transposed);
  EXPECT_EQ(fault_of(all_reduce(a(6), good)), Fault::kNone);
  EXPECT_EQ(fault_of(all_reduce(good, a(6))), Fault::kNone);
  EXPECT_EQ(fault_of(all_reduce(good, good)), Fault::kNone);
  EXPECT_EQ(fault_of(all_reduce(a(6), strided)), Fault::kNotContiguous);
  EXPECT_EQ(fault_of(all_reduce(strided, a(6))), Fault::kNotContiguous);
  for (const std::vector<int64_t>* bad : {&negative, &huge}) {
    const TensorView view(b_.data(), *bad);
    EXPECT_EQ(fault_of(all_reduce(a(6), view)), Fault::kImpossibleShape);
    EXPECT_EQ(fault_of(all_reduce(view, a(6))), Fault::kImpossibleShape);
  }
  // on the long way too
  EXPECT_EQ(any_fault(all_reduce(a(6), good)), Fault::kNone);
  EXPECT_EQ(any_fault(all_reduce(a(6), strided)), Fault::kNotContiguous);
  const std::vector<int64_t> counts{1, 2, 0, 3};
  Op gather{.kind = DW_OP_ALL_GATHER,
            .out = strided,
            .in = a(2),
            .per_rank = true,
            .out_counts = {counts}};
  EXPECT_EQ(any_fault(gather), Fault::kNotContiguous);
  gather.out = good;
  EXPECT_EQ(any_fault(gather), Fault::kNone);
}

TEST_F(OpCheck, ReadOnlyMemoryIsInputOnly) {
  const std::vector<float> constant(8);
  const TensorView view(constant);
  EXPECT_EQ(fault_of(all_reduce(a(8), view)), Fault::kNone);
  EXPECT_EQ(fault_of(all_reduce(view, a(8))), Fault::kReadOnlyOutput);
  EXPECT_EQ(fault_of(all_reduce(view, view)), Fault::kReadOnlyOutput);
  EXPECT_EQ(any_fault(all_reduce(a(8), view)), Fault::kNone);
  EXPECT_EQ(any_fault(all_reduce(view, a(8))), Fault::kReadOnlyOutput);
  EXPECT_EQ(fault_of({.kind = DW_OP_SEND, .in = view, .peer = 0}),
            Fault::kNone);
  EXPECT_EQ(fault_of({.kind = DW_OP_RECV, .out = view, .peer = 0}),
            Fault::kReadOnlyOutput);
}

TEST_F(OpCheck, CountsMustFit) {
  EXPECT_EQ(fault_of(all_reduce(a(8), b(7))), Fault::kCountsDisagree);
  EXPECT_EQ(fault_of({.kind = DW_OP_ALL_GATHER, .out = a(7), .in = b(2)}),
            Fault::kCountsDisagree);
  EXPECT_EQ(fault_of({.kind = DW_OP_REDUCE_SCATTER,
                      .reduce = DW_REDUCE_SUM,
                      .out = a(2),
                      .in = b(7)}),
            Fault::kCountsDisagree);
  EXPECT_EQ(fault_of({.kind = DW_OP_ALL_TO_ALL, .out = a(7), .in = b(7)}),
            Fault::kNotDivisible);
}

TEST_F(OpCheck, TypesAndReductions) {
  std::vector<int64_t> ints(8);
  const TensorView i(ints);
  EXPECT_EQ(fault_of(all_reduce(i, i)), Fault::kUnsupported);
  EXPECT_EQ(fault_of(all_reduce(a(8), i)), Fault::kDTypesDiffer);
  Op call = all_reduce(a(8), b(8));
  call.reduce = DW_REDUCE_MAX;
  EXPECT_EQ(fault_of(call), Fault::kUnsupported);
  for (uint16_t reduce : {uint16_t{DW_REDUCE_NONE}, uint16_t{10}, uint16_t{255},
                          uint16_t{65535}}) {
    call.reduce = reduce;
    EXPECT_EQ(fault_of(call), Fault::kUnknownReduction) << reduce;
  }
}

TEST_F(OpCheck, RootsPeersTags) {
  for (int root : {-1, kSize, 1 << 30})
    EXPECT_EQ(
        fault_of(
            {.kind = DW_OP_BROADCAST, .out = a(8), .in = b(8), .peer = root}),
        Fault::kRootOutOfRange)
        << root;
  for (int peer : {-1, kSize})
    EXPECT_EQ(fault_of({.kind = DW_OP_SEND, .in = a(8), .peer = peer}),
              Fault::kPeerOutOfRange);
  EXPECT_EQ(fault_of({.kind = DW_OP_SEND, .in = a(8), .peer = kRank}),
            Fault::kNone)
      << "a message to oneself is legal";
  for (int64_t tag : {int64_t{-1}, int64_t{1} << 31})
    EXPECT_EQ(
        fault_of({.kind = DW_OP_RECV, .out = a(8), .peer = 0, .tag = tag}),
        Fault::kTagOutOfRange);
}

TEST_F(OpCheck, InPlaceAtTheRoot) {
  EXPECT_TRUE(check({.kind = DW_OP_GATHER,
                     .out = a(8),
                     .in = a(2, 2 * kRank),
                     .peer = kRank})
                  .in_place);
  EXPECT_TRUE(check({.kind = DW_OP_SCATTER,
                     .out = a(2, 2 * kRank),
                     .in = a(8),
                     .peer = kRank})
                  .in_place);
  EXPECT_EQ(
      fault_of({.kind = DW_OP_SCATTER, .out = a(2), .in = a(8), .peer = kRank}),
      Fault::kOverlap);
}

// Every text names the operation and one thing to do, and the numbers at fault.
TEST_F(OpCheck, TextsHelp) {
  const TensorView null(nullptr, 3, DType::kF32);
  const auto text = [](const Op& op) {
    const ErrorInfo info =
        describe_fault(fault_of(op), op.kind, op.call(), kRank, kSize, "fake",
                       everything_f32());
    EXPECT_FALSE(info.next_step.empty()) << info.what;
    return std::string(base::make_error(info).message());
  };
  EXPECT_THAT(text(all_reduce(a(3), null)), HasSubstr("input"));
  EXPECT_THAT(text(all_reduce(null, a(3))), HasSubstr("output"));
  EXPECT_THAT(text(all_reduce(a(-1), b(-1))), HasSubstr("-1"));
  EXPECT_THAT(text(all_reduce(a(8), b(7))), HasSubstr("input 7, output 8"));
  const std::vector<int64_t> shape{2, 3}, transposed{1, 2}, negative{2, -3};
  const TensorView strided(b_.data(), shape, transposed);
  EXPECT_THAT(text(all_reduce(a(6), strided)),
              HasSubstr("the input is not contiguous; expected row-major "
                        "elements without gaps, got f32 [2, 3] strides "
                        "[1, 2]"));
  EXPECT_THAT(text(all_reduce(strided, a(6))),
              HasSubstr("the output is not contiguous"));
  EXPECT_THAT(text(all_reduce(TensorView(b_.data(), negative), a(6))),
              HasSubstr("f32 [2, -3]"));
  EXPECT_THAT(text(all_reduce(a(6).as_read_only(), a(6))),
              HasSubstr("the output is read-only memory"));
  EXPECT_THAT(text({.kind = DW_OP_BROADCAST, .out = a(8), .peer = 9}),
              HasSubstr("expected 0..3, got 9"));
  const auto any_text = [](const Op& op) {
    const ErrorInfo info =
        describe_fault(any_fault(op), op.kind, op.call(), kRank, kSize, "fake",
                       everything_f32());
    EXPECT_FALSE(info.next_step.empty()) << info.what;
    return std::string(base::make_error(info).message());
  };
  const std::vector<int64_t> counts{1, 2, 0, 3}, three{1, 2, 3};
  Op gather{.kind = DW_OP_ALL_GATHER,
            .out = a(6),
            .in = b(1),
            .per_rank = true,
            .out_counts = {counts}};
  EXPECT_THAT(any_text(gather), HasSubstr("expected 2, got 1"));
  gather.out = a(5);
  EXPECT_THAT(any_text(gather), HasSubstr("within 5 elements, got counts "
                                          "[1, 2, 0, 3]"));
  gather.out_counts = {three};
  EXPECT_THAT(any_text(gather),
              HasSubstr("output's counts do not have one entry for each rank; "
                        "expected 4, got 3"));
  EXPECT_THAT(any_text({.kind = DW_OP_ALL_REDUCE,
                        .reduce = DW_REDUCE_BAND,
                        .out = a(8),
                        .in = b(8)}),
              HasSubstr("band is not defined for elements of type f32; "
                        "expected u8, i8, u16, i16, u32, i32, u64, i64, bool"));

  Op call = all_reduce(a(8), b(8));
  call.reduce = DW_REDUCE_MAX;
  EXPECT_THAT(text(call), HasSubstr("backend fake has no all_reduce for f32 "
                                    "with max; expected f32 with sum"));
}

}  // namespace
}  // namespace distwrap::comm
