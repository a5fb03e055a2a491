// The helpers for authors of backends.
#include "sdk/buffers.h"
#include "sdk/dtype.h"
#include "sdk/fail.h"
#include "sdk/open.h"
#include "sdk/read_op.h"
#include "sdk/shapes.h"

#include <gtest/gtest.h>

#include <string.h>
#include <string>
#include <utility>
#include <vector>

namespace {

dw_str str(const char* text) { return {text, strlen(text)}; }

TEST(Sdk, FailFillsTheError) {
  dw_error error{};
  memset(&error, 0xff, sizeof error);
  EXPECT_EQ(
      dw_fail(&error, DW_UNAVAILABLE, DW_REASON_PEER_LOST, 3, 104, "gone"),
      DW_UNAVAILABLE);
  EXPECT_EQ(error.code, DW_UNAVAILABLE);
  EXPECT_EQ(error.reason, DW_REASON_PEER_LOST);
  EXPECT_EQ(error.peer, 3);
  EXPECT_EQ(error.native, 104);
  EXPECT_EQ(error.flags, 0u);
  EXPECT_STREQ(error.text, "gone");
  EXPECT_EQ(dw_fail(nullptr, DW_ABORTED, 0, -1, 0, "x"), DW_ABORTED);
  dw_fail(&error, DW_ABORTED, 0, -1, 0, nullptr);
  EXPECT_STREQ(error.text, "");
}

TEST(Sdk, FailCutsLongTextsBetweenCharacters) {
  dw_error error{};
  dw_fail(&error, DW_ABORTED, 0, -1, 0, std::string(239, 'a').c_str());
  EXPECT_EQ(strlen(error.text), 239u);
  dw_fail(&error, DW_ABORTED, 0, -1, 0, std::string(240, 'a').c_str());
  EXPECT_EQ(strlen(error.text), 239u);
  const std::string before(238, 'a');
  dw_fail(&error, DW_ABORTED, 0, -1, 0, (before + "\xe2\x82\xac").c_str());
  EXPECT_EQ(std::string(error.text), before);
}

TEST(Sdk, Dtypes) {
#define DW_DTYPE(index, name, enumerator, text, code_, bits_, storage) \
  {                                                                    \
    const dw_dtype dtype = dw_dtype_of(DW_DTYPE_##name);               \
    EXPECT_EQ(dtype.code, code_) << #text;                             \
    EXPECT_EQ(dtype.bits, bits_) << #text;                             \
    EXPECT_EQ(dtype.lanes, 1) << #text;                                \
    EXPECT_EQ(dw_dtype_index(dtype), index) << #text;                  \
    EXPECT_EQ(dw_dtype_bytes(dtype), sizeof(storage)) << #text;        \
  }
#include "distwrap/abi/dtypes.def"
  for (dw_dtype unknown : {dw_dtype{0, 0, 0}, dw_dtype{2, 32, 2},
                           dw_dtype{2, 128, 1}, dw_dtype{99, 8, 1}}) {
    EXPECT_EQ(dw_dtype_index(unknown), -1);
    EXPECT_EQ(dw_dtype_bytes(unknown), 0u);
  }
  EXPECT_EQ(dw_dtype_of(-1).bits, 0);
  EXPECT_EQ(dw_dtype_of(999).bits, 0);
}

TEST(Sdk, ReadOpCopiesOnlyOtherSizes) {
  std::vector<uint64_t> memory(sizeof(dw_op) / 8 + 1);
  auto* const in = reinterpret_cast<dw_op*>(memory.data());
  in->seq = 5;
  dw_op space;
  const dw_op* op = nullptr;
  in->struct_size = sizeof(dw_op);
  EXPECT_EQ(dw_read_op(&space, &op, in), DW_OK);
  EXPECT_EQ(op, in);
  in->struct_size = sizeof(dw_op) + 8;
  EXPECT_EQ(dw_read_op(&space, &op, in), DW_OK);
  EXPECT_EQ(op, &space);
  EXPECT_EQ(op->seq, 5u);
  EXPECT_EQ(op->struct_size, sizeof(dw_op));
  memory.back() = 1;
  EXPECT_EQ(dw_read_op(&space, &op, in), DW_INCOMPATIBLE);
  in->struct_size = DW_OP_SIZE_1_0 - 1;
  EXPECT_EQ(dw_read_op(&space, &op, in), DW_INVALID_ARGUMENT);
  EXPECT_EQ(dw_read_op(&space, &op, nullptr), DW_INVALID_ARGUMENT);
}

TEST(Sdk, Extensions) {
  dw_ext second = {sizeof(dw_ext), 0, str("x-b"), nullptr};
  const dw_ext first = {sizeof(dw_ext), 0, str("x-a"), &second};
  EXPECT_EQ(dw_check_extensions(nullptr), DW_OK);
  EXPECT_EQ(dw_check_extensions(&first), DW_OK);
  second.flags = DW_EXT_REQUIRED;
  EXPECT_EQ(dw_check_extensions(&first), DW_UNIMPLEMENTED);
  const dw_str other = str("x-a"), known[] = {str("x-c"), str("x-b")};
  EXPECT_EQ(dw_check_known_extensions(&first, known, 2), DW_OK);
  EXPECT_EQ(dw_check_known_extensions(&first, known, 1), DW_UNIMPLEMENTED);
  EXPECT_EQ(dw_check_known_extensions(&first, &other, 1), DW_UNIMPLEMENTED);
  EXPECT_EQ(dw_find_extension(&first, str("x-b")), &second);
  EXPECT_EQ(dw_find_extension(&first, str("x-a")), &first);
  EXPECT_EQ(dw_find_extension(&first, str("x-c")), nullptr);
  EXPECT_EQ(dw_find_extension(nullptr, str("x-a")), nullptr);
}

TEST(Sdk, Hints) {
  const dw_hint hints[] = {
      {str("a"), str("1")}, {str("b"), str("2")}, {str("a"), str("3")}};
  EXPECT_TRUE(dw_str_equal(dw_find_hint(hints, 3, str("a")), str("3")));
  EXPECT_TRUE(dw_str_equal(dw_find_hint(hints, 3, str("b")), str("2")));
  EXPECT_EQ(dw_find_hint(hints, 3, str("c")).data, nullptr);
  EXPECT_EQ(dw_find_hint(nullptr, 0, str("c")).data, nullptr);
  const dw_str known[] = {str("a"), str("b")};
  EXPECT_EQ(dw_unknown_hint(hints, 3, known, 2), nullptr);
  EXPECT_EQ(dw_unknown_hint(hints, 3, known, 1), &hints[1]);
  EXPECT_EQ(dw_unknown_hint(hints, 3, nullptr, 0), &hints[0]);
  EXPECT_FALSE(dw_str_equal(str("ab"), str("a")));
  EXPECT_TRUE(dw_str_equal({nullptr, 0}, {nullptr, 0}));
}

// Lists of kinds and types are generated from the tables of the ABI.
TEST(Sdk, Shapes) {
  using namespace dw_sdk;
  EXPECT_EQ(types_of(DW_OP_ALL_REDUCE, DW_REDUCE_NONE), 0u);
  EXPECT_EQ(types_of(DW_OP_ALL_REDUCE, DW_REDUCE_BXOR), INTEGERS);
  EXPECT_EQ(types_of(DW_OP_SCAN, DW_REDUCE_SUM), ANY);
  EXPECT_EQ(types_of(DW_OP_SCAN, DW_REDUCE_AVG), 0u);
  EXPECT_EQ(types_of(DW_OP_ALL_REDUCE, 200), 0u);
  EXPECT_EQ(reductions_of(NUMBERS), DW_BIT(DW_REDUCE_AVG));
  EXPECT_EQ(INTEGERS | FLOATS, ANY);

  const Shapes shapes = shapes_of(DW_BIT(DW_OP_SCATTER));
  EXPECT_TRUE(shape_in(shapes, DW_OP_SCATTER).root_brings);
  EXPECT_FALSE(shape_in(shapes, DW_OP_GATHER).known);
  EXPECT_FALSE(shape_in(shapes, 0).known);
  EXPECT_FALSE(shape_in(shapes, 65535).known);
}

TEST(Sdk, Form) {
  using namespace dw_sdk;
  const Shapes shapes = shapes_of(kTwoSided);
  const auto check = [&](const dw_op& op) {
    return check_form(op, shape_in(shapes, op.kind), 1, 3, nullptr);
  };
  dw_op op{};
  op.kind = DW_OP_SEND;
  op.peer = 2;
  EXPECT_EQ(check(op), DW_OK);
  op.tag = UINT64_C(1) << DW_TAG_BITS;
  EXPECT_EQ(check(op), DW_INVALID_ARGUMENT);
  op.tag = 0;
  op.peer = 1;
  EXPECT_EQ(check(op), DW_UNIMPLEMENTED);
  op.peer = 3;
  EXPECT_EQ(check(op), DW_INVALID_ARGUMENT);
  op.kind = DW_OP_BROADCAST;
  EXPECT_EQ(check(op), DW_INVALID_ARGUMENT);
  op.peer = 1;
  EXPECT_EQ(check(op), DW_OK);
  op.flags = DW_FLAG_PER_RANK;
  EXPECT_EQ(check(op), DW_UNIMPLEMENTED);
  op.flags = 0;
  op.reduce = DW_REDUCE_SUM;
  EXPECT_EQ(check(op), DW_UNIMPLEMENTED);
  op.reduce = DW_REDUCE_NONE;
  op.stream.device_type = DW_DEVICE_CUDA;
  EXPECT_EQ(check(op), DW_UNIMPLEMENTED);
  op.kind = 63;
  EXPECT_EQ(check(op), DW_UNIMPLEMENTED);
}

TEST(Sdk, Buffers) {
  using namespace dw_sdk;
  float memory[6];
  const dw_dtype f32 = dw_dtype_of(DW_DTYPE_F32);
  const Shape shape = shape_of(DW_OP_REDUCE_SCATTER);
  dw_op op{};
  op.kind = DW_OP_REDUCE_SCATTER;
  op.in.data = memory;
  op.in.count = 6;
  op.in.dtype = op.out.dtype = f32;
  op.out.data = memory;
  op.out.count = 2;
  Buffers buffers;
  const auto read = [&](uint64_t types) {
    return read_buffers(op, shape, types, 1, 3, &buffers, nullptr);
  };
  ASSERT_EQ(read(ANY), DW_OK);
  EXPECT_TRUE(buffers.in_pieces.equal());
  EXPECT_EQ(buffers.in_pieces[2].at, reinterpret_cast<char*>(memory + 4));
  EXPECT_EQ(buffers.in_pieces.longest(), 8u);
  EXPECT_EQ(buffers.out.bytes, 8u);
  EXPECT_TRUE(buffers.moves);
  EXPECT_EQ(read(INTEGERS), DW_UNIMPLEMENTED);

  const int64_t counts[] = {1, 2, 3};
  op.in.counts = counts;
  EXPECT_EQ(read(ANY), DW_UNIMPLEMENTED);  // no flag announces the lists
  op.flags = DW_FLAG_PER_RANK;
  ASSERT_EQ(read(ANY), DW_OK);
  EXPECT_EQ(buffers.in_pieces[2].at, reinterpret_cast<char*>(memory + 3));
  EXPECT_EQ(buffers.in_pieces.longest(), 12u);
  for (const auto& [wrong, why] :
       std::vector<std::pair<std::vector<int64_t>, const char*>>{
           {{1, 2, 2}, "less than there is"},
           {{1, 2, 4}, "more than there is"},
           {{-1, 2, 5}, "negative"},
           {{INT64_MAX, 2, INT64_MAX}, "overflows"},
           {{2, 1, 3}, "not the output's"}}) {
    op.in.counts = wrong.data();
    EXPECT_EQ(read(ANY), DW_INVALID_ARGUMENT) << why;
  }
  op.in.counts = nullptr;
  op.in.count = 5;
  EXPECT_EQ(read(ANY), DW_INVALID_ARGUMENT);
  op.in.count = 6;
  op.out.dtype = dw_dtype_of(DW_DTYPE_F64);
  EXPECT_EQ(read(ANY), DW_INVALID_ARGUMENT);
}

TEST(Sdk, Open) {
  dw_open_info given{};
  given.struct_size = sizeof given;
  given.device_type = DW_DEVICE_CPU;
  const dw_str known[] = {str("a")};
  const dw_hint hint = {str("b"), str("1")};
  dw_open_info info{};
  dw_error error{};
  EXPECT_EQ(dw_read_open(&info, &given, known, 1, &error), DW_OK);
  given.hints = &hint;
  given.n_hints = 1;
  EXPECT_EQ(dw_read_open(&info, &given, known, 1, &error), DW_INVALID_ARGUMENT);
  given.n_hints = 0;
  given.device_type = DW_DEVICE_CUDA;
  EXPECT_EQ(dw_read_open(&info, &given, known, 1, &error), DW_UNIMPLEMENTED);
  EXPECT_NE(dw_read_open(&info, nullptr, known, 1, &error), DW_OK);
}

}  // namespace
