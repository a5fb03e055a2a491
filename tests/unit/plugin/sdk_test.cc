// The helpers for authors of backends.
#include "sdk/dtype.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

#include <gtest/gtest.h>

#include <string.h>
#include <string>
#include <vector>

namespace {

dw_str str(const char* text) { return {text, strlen(text)}; }

TEST(Sdk, FailFillsTheError) {
  dw_error error;
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
  dw_error error;
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

}  // namespace
