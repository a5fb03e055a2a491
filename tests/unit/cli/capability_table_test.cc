#include "info/capability_table.h"

#include "algo/compose/recipes.h"
#include "sdk/shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

namespace distwrap::cli {
namespace {

using algo::compose::Recipes;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kAllTypes = dw_sdk::kEveryType;
constexpr uint32_t kHost = DW_BIT(DW_DEVICE_CPU);

dw_caps_row row(uint64_t ops, uint64_t dtypes, uint32_t reductions,
                uint32_t flags) {
  return {ops, dtypes, reductions, flags, kHost, 0, 0, 0};
}

std::vector<CapabilityRow> rows_of(const CapabilityTable& table,
                                   const std::string& op) {
  std::vector<CapabilityRow> found;
  for (const CapabilityRow& r : table.rows)
    if (r.op == op) found.push_back(r);
  return found;
}

TEST(CapabilityTable, ABackendWithoutRowsServesNothingButMessagesToItself) {
  const CapabilityTable table = capability_table("none", {});
  for (const CapabilityRow& r : table.rows) {
    if (r.op == "send" || r.op == "recv") continue;
    // Windows of a group of one rank need no messages.
    const bool within = r.of == "a copy; of one rank only";
    EXPECT_EQ(r.how, within ? "composed" : "refused") << r.op;
  }
  EXPECT_THAT(rows_of(table, "broadcast"), testing::SizeIs(1));
  EXPECT_EQ(rows_of(table, "put").front().of, "a copy; of one rank only");
}

// Rows that lie apart are made of an all_to_all, of whatever that is made.
TEST(CapabilityTable, TellsHowRowsMove) {
  const std::vector<dw_caps_row> messages = {
      row(DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV), kAllTypes, 1, 0)};
  const auto how = [&](bool native, int device = DW_DEVICE_CPU,
                       const char* op = "moe rows", bool adds = false) {
    return rows_of(capability_table("x", messages, device, native, adds), op)
        .front();
  };
  EXPECT_EQ(how(true).how, "native");
  EXPECT_EQ(how(false).how, "composed");
  EXPECT_EQ(how(false).of, "all_to_all");
  EXPECT_EQ(how(false, DW_DEVICE_CUDA).how, "refused");
  for (const char* op : {"moe rows", "moe sums"})
    EXPECT_EQ(rows_of(capability_table("none", {}), op).front().how, "refused");
  // A backend may know the one and not the other.
  EXPECT_EQ(how(true, DW_DEVICE_CPU, "moe sums").how, "composed");
  EXPECT_EQ(how(true, DW_DEVICE_CPU, "moe sums", true).how, "native");
  EXPECT_THAT(how(true, DW_DEVICE_CPU, "moe sums").dtypes,
              testing::ElementsAre("f16", "bf16", "f32", "f64", "i32", "i64"));
}

TEST(CapabilityTable, EqualAnswersAreOneRow) {
  const std::vector<dw_caps_row> promises = {
      row(DW_BIT(DW_OP_BROADCAST), kAllTypes, 1, DW_FLAG_IN_PLACE)};
  const auto found = rows_of(capability_table("x", promises), "broadcast");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].how, "native");
  EXPECT_TRUE(found[0].every_form);
  EXPECT_TRUE(found[0].every_dtype);
  EXPECT_THAT(found[0].reductions, IsEmpty());
}

// A backend has all operations on windows or none; then they are made of its
// messages.
TEST(CapabilityTable, WindowsAreTheBackendsOrMadeOfMessages) {
  const dw_caps_row messages =
      row(DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV), kAllTypes, 1, 0);
  const auto made = rows_of(capability_table("x", {messages}), "fetch_op");
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].of, "send + recv");
  EXPECT_TRUE(made[0].every_dtype);
  EXPECT_TRUE(made[0].every_reduction);
  const std::vector<dw_caps_row> native = {
      messages,
      row(DW_BIT(DW_OP_PUT), DW_BIT(DW_DTYPE_F32) | DW_BIT(DW_DTYPE_U8), 1, 0)};
  const CapabilityTable table = capability_table("x", native);
  ASSERT_EQ(rows_of(table, "put").size(), 1u);
  EXPECT_EQ(rows_of(table, "put")[0].how, "native");
  EXPECT_THAT(rows_of(table, "put")[0].dtypes,
              testing::ElementsAre("u8", "f32"));
  EXPECT_EQ(rows_of(table, "get")[0].how, "refused");
}

TEST(CapabilityTable, TypesAndReductionsAreGrouped) {
  const uint64_t two = DW_BIT(DW_DTYPE_F32) | DW_BIT(DW_DTYPE_I32);
  const std::vector<dw_caps_row> promises = {
      row(DW_BIT(DW_OP_ALL_REDUCE), two,
          DW_BIT(DW_REDUCE_SUM) | DW_BIT(DW_REDUCE_MAX), DW_FLAG_IN_PLACE)};
  const auto found = rows_of(capability_table("x", promises), "all_reduce");
  std::vector<CapabilityRow> native;
  for (const CapabilityRow& r : found)
    if (r.how == "native") native.push_back(r);
  ASSERT_EQ(native.size(), 1u);
  EXPECT_THAT(native[0].dtypes, ElementsAre("i32", "f32"));
  EXPECT_THAT(native[0].reductions, ElementsAre("sum", "max"));
  EXPECT_FALSE(native[0].every_dtype);
  EXPECT_FALSE(native[0].every_reduction);
}

TEST(CapabilityTable, SaysOfWhatAnOperationIsComposed) {
  const std::vector<dw_caps_row> promises = {
      row(DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV), kAllTypes, 1, 0)};
  const CapabilityTable table = capability_table("messages", promises);
  const auto found = rows_of(table, "all_gather");
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found, Each(Field(&CapabilityRow::how, "composed")));
  EXPECT_THAT(found[0].of, HasSubstr("send + recv"));
  EXPECT_THAT(to_markdown(table), HasSubstr("composed: send + recv"));
}

// On the memory of a device nothing is composed.
TEST(CapabilityTable, OfADeviceHasItsOwnOperationsAlone) {
  dw_caps_row messages =
      row(DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV), kAllTypes, 1, 0);
  messages.memory = DW_BIT(DW_DEVICE_CUDA);
  const CapabilityTable table =
      capability_table("device", {messages}, DW_DEVICE_CUDA);
  EXPECT_THAT(rows_of(table, "send"),
              Contains(Field(&CapabilityRow::how, "native")));
  for (const CapabilityRow& one : table.rows)
    EXPECT_THAT(one.how, AnyOf("native", "refused")) << one.op;
  for (const CapabilityRow& one : capability_table("device", {messages}).rows)
    EXPECT_NE(one.how, "native") << one.op << " is not of the host's memory";
}

// The rows and the recipes agree on every existing combination, which appears
// once.
TEST(CapabilityTable, LeavesNothingOutAndSaysNothingTwice) {
  std::map<std::string, uint16_t> ops;
#define DW_OP(value, name, enumerator, text, peer, in, out, summary) \
  ops[#text] = value;
#include "distwrap/abi/ops.def"
  std::map<std::string, int> types;
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  types[#text] = index;
#include "distwrap/abi/dtypes.def"
  std::map<std::string, uint16_t> reductions;
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  reductions[#text] = value;
#include "distwrap/abi/reductions.def"
  const std::map<std::string, uint32_t> forms = {
      {"plain", 0},
      {"in place", DW_FLAG_IN_PLACE},
      {"per rank", DW_FLAG_PER_RANK},
      {"parts", DW_FLAG_PARTS},
      {"exclusive", DW_FLAG_EXCLUSIVE}};

  const std::vector<dw_caps_row> promises = {
      row(DW_BIT(DW_OP_ALL_REDUCE), DW_BIT(DW_DTYPE_F32), DW_BIT(DW_REDUCE_SUM),
          0),
      row(DW_BIT(DW_OP_ALL_GATHER), DW_BIT(DW_DTYPE_U8), 1, DW_FLAG_PER_RANK)};
  const Recipes recipes(promises, DW_DEVICE_CPU);
  const CapabilityTable table = capability_table("odd", promises);

  std::set<std::tuple<uint16_t, uint32_t, int, uint16_t>> told;
  for (const CapabilityRow& r : table.rows) {
    if (r.op == "moe rows" || r.op == "moe sums") continue;  // extensions
    const uint16_t kind = ops.at(r.op);
    if (kind >= Recipes::kKinds || kind == DW_OP_BARRIER) continue;
    std::vector<uint16_t> values;
    for (const std::string& name : r.reductions)
      values.push_back(reductions.at(name));
    if (values.empty()) values.push_back(DW_REDUCE_NONE);
    for (const std::string& form : r.forms)
      for (const std::string& type : r.dtypes)
        for (const uint16_t reduce : values) {
          const uint32_t flags = forms.at(form);
          const int dtype = types.at(type);
          // "every dtype" includes some that this reduction does not have.
          if (!Recipes::exists(kind, flags, dtype, reduce)) {
            EXPECT_TRUE(r.every_reduction) << r.op << " " << type;
            continue;
          }
          const Recipes::Answer answer =
              recipes.find(kind, flags, dtype, reduce);
          EXPECT_EQ(r.how, answer.how == Recipes::kIsNative   ? "native"
                           : answer.how == Recipes::kComposed ? "composed"
                                                              : "refused")
              << r.op << " " << form << " " << type;
          EXPECT_EQ(r.of, answer.of);
          EXPECT_TRUE(told.insert({kind, flags, dtype, reduce}).second)
              << r.op << " " << form << " " << type << " twice";
        }
  }
  for (const auto& op : ops)
    for (const auto& form : forms)
      for (const auto& type : types)
        for (uint16_t reduce = 0; reduce < Recipes::kReductions; ++reduce) {
          if (op.second == DW_OP_BARRIER ||
              !Recipes::exists(op.second, form.second, type.second, reduce))
            continue;
          EXPECT_EQ(told.count({op.second, form.second, type.second, reduce}),
                    1u)
              << op.first << " " << form.first << " " << type.first;
        }
}

}  // namespace
}  // namespace distwrap::cli
