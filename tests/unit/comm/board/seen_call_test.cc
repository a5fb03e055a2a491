// The fields of a call that must be equal on all ranks, and their text.
#include "comm/board/seen_call.h"

#include "board_fixture.h"

#include <gtest/gtest.h>

#include <vector>

namespace distwrap::comm {
namespace {

TEST(SeenCall, DiffersInWhateverHasToBeEqual) {
  const dw_op plain = op_of(DW_OP_ALL_REDUCE, 8, 1);
  const auto print = [](const dw_op& op) {
    return SeenCall::of(op.kind, op, 4).print;
  };
  std::vector<dw_op> others(6, plain);
  others[0].kind = DW_OP_SCAN;
  others[1].in.count = 9;
  others[2].in.dtype = kI32;
  others[3].reduce = DW_REDUCE_MAX;
  others[4].flags |= DW_FLAG_PER_RANK;
  others[5].kind = DW_OP_REDUCE;
  others[5].peer = 0;
  for (size_t i = 0; i < others.size(); ++i)
    EXPECT_NE(print(others[i]), print(plain)) << i;
  dw_op other_root = others[5];
  other_root.peer = 1;
  EXPECT_NE(print(other_root), print(others[5]));
}

TEST(SeenCall, IsTheSameWhereRanksMayDiffer) {
  dw_op op = op_of(DW_OP_ALL_REDUCE, 8, 1), other = op;
  float x = 0;
  other.in.data = &x;
  other.flags |= DW_FLAG_IN_PLACE | DW_FLAG_CALLER_WAITS;
  other.timeout_ns = 5;
  EXPECT_EQ(SeenCall::of(op.kind, op, 4).print,
            SeenCall::of(other.kind, other, 4).print);
  // At the root alone there is a result, or a source.
  op = op_of(DW_OP_GATHER, 8, 1);
  other = op;
  other.out = {};
  EXPECT_EQ(SeenCall::of(op.kind, op, 4).print,
            SeenCall::of(other.kind, other, 4).print);
  // Each rank has counts of its own in a gather, and all the same in an
  // all_gather.
  const int64_t counts[] = {1, 2, 3, 4}, swapped[] = {2, 1, 3, 4};
  op = op_of(DW_OP_GATHER, 1, 1);
  op.flags = DW_FLAG_PER_RANK;
  other = op;
  other.in.count = 2;
  EXPECT_EQ(SeenCall::of(op.kind, op, 4).print,
            SeenCall::of(other.kind, other, 4).print);
  op = op_of(DW_OP_ALL_GATHER, 1, 1);
  op.flags = DW_FLAG_PER_RANK;
  op.out.counts = counts;
  other = op;
  other.in.count = 2;
  EXPECT_EQ(SeenCall::of(op.kind, op, 4).print,
            SeenCall::of(other.kind, other, 4).print);
  other.out.counts = swapped;
  EXPECT_NE(SeenCall::of(op.kind, op, 4).print,
            SeenCall::of(other.kind, other, 4).print);
}

TEST(SeenCall, SaysWhatItIs) {
  dw_op op = op_of(DW_OP_ALL_REDUCE, 1024, 1);
  op.reduce = DW_REDUCE_SUM;
  EXPECT_EQ(SeenCall::of(op.kind, op, 2).text(), "all_reduce f32 x 1024 sum");
  op = op_of(DW_OP_BROADCAST, 3, 1);
  op.peer = 1;
  EXPECT_EQ(SeenCall::of(op.kind, op, 2).text(),
            "broadcast f32 x 3 from rank 1");
  op.kind = DW_OP_GATHER;
  EXPECT_EQ(SeenCall::of(op.kind, op, 2).text(), "gather f32 x 3 to rank 1");
  EXPECT_EQ(SeenCall::of(DW_OP_BARRIER, op_of(DW_OP_BARRIER, 0, 1), 2).text(),
            "barrier");
  // Words of a faulty neighbour.
  for (uint64_t what : {~uint64_t{0}, uint64_t{0}, uint64_t{0x123456789abcdef}})
    EXPECT_FALSE((SeenCall{0, what, -5}.text().empty()));
}

}  // namespace
}  // namespace distwrap::comm
