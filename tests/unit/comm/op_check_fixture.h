// Calls as a rank of a group of four makes them, judged.
#ifndef DISTWRAP_TESTS_UNIT_COMM_OP_CHECK_FIXTURE_H_
#define DISTWRAP_TESTS_UNIT_COMM_OP_CHECK_FIXTURE_H_

#include "comm/op_check.h"

#include <gtest/gtest.h>

#include <vector>

namespace distwrap::comm {

inline constexpr int kRank = 1;
inline constexpr int kSize = 4;

inline Capabilities everything_f32() {
  const dw_caps_row row{~uint64_t{0},
                        DW_BIT(DW_DTYPE_F32),
                        1u << DW_REDUCE_SUM,
                        0,
                        1u << DW_DEVICE_CPU,
                        0,
                        0,
                        0};
  return Capabilities(absl::MakeConstSpan(&row, 1), kCpu);
}

// A call with its operation.
struct Op {
  uint16_t kind;
  uint16_t reduce = DW_REDUCE_NONE;
  TensorView out = {}, in = {};
  int peer = -1;
  int64_t tag = 0;

  ReduceOp op = ReduceOp::kSum;
  bool per_rank = false;
  Counts out_counts = {}, in_counts = {};
  bool exclusive = false;
  bool placed_by_extension = false;

  AnyCall call() const {
    return {{.reduce = reduce,
             .out = out,
             .in = in,
             .peer = peer,
             .tag = tag,
             .op = op},
            {.per_rank = per_rank,
             .out_counts = out_counts,
             .in_counts = in_counts,
             .exclusive = exclusive,
             .placed_by_extension = placed_by_extension}};
  }
};

inline CheckedCall check(const Op& op) {
  switch (op.kind) {
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  case value:                                                        \
    return check_call<value>(op.call(), kRank, kSize, everything_f32());
#include "distwrap/abi/ops.def"
  }
  ADD_FAILURE() << "no operation " << op.kind;
  return {};
}
inline Fault fault_of(const Op& op) { return check(op).fault; }

// The long way, on a backend that has everything.
inline CheckedCall check_any(const Op& op) {
  const dw_caps_row row{
      ~uint64_t{0}, ~uint64_t{0}, ~0u, 0, 1u << DW_DEVICE_CPU, 0, 0, 0};
  return check_any_call(op.kind, op.call(), kRank, kSize,
                        Capabilities(absl::MakeConstSpan(&row, 1), kCpu));
}
inline Fault any_fault(const Op& op) { return check_any(op).fault; }

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

}  // namespace distwrap::comm

#endif  // DISTWRAP_TESTS_UNIT_COMM_OP_CHECK_FIXTURE_H_
