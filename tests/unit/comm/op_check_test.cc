#include "comm/op_check.h"

#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::HasSubstr;

constexpr int kRank = 1;
constexpr int kSize = 4;

Capabilities everything_f32() {
  const dw_caps_row row{~uint64_t{0},
                        DW_BIT(DW_DTYPE_F32),
                        1u << DW_REDUCE_SUM,
                        0,
                        1u << DW_DEVICE_CPU,
                        0,
                        0,
                        0};
  return Capabilities(absl::MakeConstSpan(&row, 1), DW_DEVICE_CPU);
}

// A call with its operation.
struct Op {
  uint16_t kind;
  uint16_t reduce = DW_REDUCE_NONE;
  TensorView out = {}, in = {};
  int peer = -1;
  int64_t tag = 0;

  Call call() const { return {reduce, out, in, peer, tag}; }
};

CheckedCall check(const Op& op) {
  switch (op.kind) {
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  case value:                                                        \
    return check_call<value>(op.call(), kRank, kSize, everything_f32());
#include "distwrap/abi/ops.def"
  }
  ADD_FAILURE() << "no operation " << op.kind;
  return {};
}
Fault fault_of(const Op& op) { return check(op).fault; }

class OpCheck : public ::testing::Test {
 protected:
  // Room for four blocks of two elements, twice.
  std::vector<float> a_ = std::vector<float>(8), b_ = std::vector<float>(8);

  TensorView a(int64_t n, int64_t at = 0) { return {a_.data() + at, n}; }
  TensorView b(int64_t n) { return {b_.data(), n}; }
  Op all_reduce(TensorView out, TensorView in) {
    return {.kind = DW_OP_ALL_REDUCE,
            .reduce = DW_REDUCE_SUM,
            .out = out,
            .in = in};
  }
};

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
  EXPECT_EQ(fault_of(all_reduce(cuda, cuda)), Fault::kNotHostMemory);
  const TensorView strange(a_.data(), 3, static_cast<DType>(99));
  EXPECT_EQ(fault_of(all_reduce(strange, strange)), Fault::kUnknownDType);
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
            Fault::kPeerIsSelf);
  for (int64_t tag : {int64_t{-1}, int64_t{1} << 31})
    EXPECT_EQ(
        fault_of({.kind = DW_OP_RECV, .out = a(8), .peer = 0, .tag = tag}),
        Fault::kTagOutOfRange);
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
  EXPECT_THAT(text({.kind = DW_OP_BROADCAST, .out = a(8), .peer = 9}),
              HasSubstr("expected 0..3, got 9"));
  Op call = all_reduce(a(8), b(8));
  call.reduce = DW_REDUCE_MAX;
  EXPECT_THAT(text(call), HasSubstr("backend fake has no all_reduce for f32 "
                                    "with max; expected f32 with sum"));
}

}  // namespace
}  // namespace distwrap::comm
