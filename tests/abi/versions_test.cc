// Plugins of other languages, compilers and versions under this host.
#include "abi/drive.h"
#include "distwrap/abi/blocks.h"
#include "plugin/registry.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace distwrap::testing {
namespace {

struct Kind {
  const char* file;
  uint32_t minor;
  uint32_t op_size;
};

class Versions : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (absl::StartsWith(GetParam().file, "echo_other") &&
        !absl::string_view(DW_TEST_NO_OTHER_COMPILER).empty())
      GTEST_SKIP() << DW_TEST_NO_OTHER_COMPILER;
    plugin::Registry registry({});
    absl::StatusOr<plugin::BackendPtr> backend = registry.find(
        absl::StrCat(DW_TEST_PLUGINS "/", GetParam().file, ".so"));
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *backend;
  }
  plugin::BackendPtr backend_;
};

TEST_P(Versions, LoadsWithTheTableThisHostKnows) {
  EXPECT_EQ(backend_->name(), "echo");
  EXPECT_EQ(backend_->version(), "3.1");
  EXPECT_EQ(backend_->api().abi_minor, GetParam().minor);
  EXPECT_EQ(backend_->api().struct_size, sizeof(dw_backend_api));
}

TEST_P(Versions, ReadsTheHostsOperation) {
  OneRank rank(backend_->api());
  echo_answer answer = {};
  answer.priority = 1;
  ASSERT_EQ(rank.submit(sizeof(dw_op), &answer), DW_DONE);
  EXPECT_EQ(answer.plugin_minor, GetParam().minor);
  EXPECT_EQ(answer.given_size, sizeof(dw_op));
  // The plugin sees its own struct; fields that the host did not send are zero.
  EXPECT_EQ(answer.own_size, GetParam().op_size);
  EXPECT_EQ(answer.seen_size, GetParam().op_size);
  EXPECT_EQ(answer.seq, 77u);
  EXPECT_EQ(answer.priority, 0u);
}

TEST_P(Versions, TakesAZeroTailAndRefusesAnother) {
  OneRank rank(backend_->api());
  for (uint32_t more : {1u, 8u, 64u}) {
    const uint32_t size = GetParam().op_size + more;
    echo_answer answer = {};
    EXPECT_EQ(rank.submit(size, &answer, 0), DW_DONE) << more;
    EXPECT_EQ(answer.given_size, size);
    EXPECT_EQ(answer.seen_size, GetParam().op_size);
    answer = {};
    EXPECT_EQ(rank.submit(size, &answer, 9), DW_INCOMPATIBLE) << more;
    EXPECT_EQ(answer.given_size, 0u) << "an answer to a refused call";
  }
}

TEST_P(Versions, RefusesLessThanVersion1_0) {
  OneRank rank(backend_->api());
  echo_answer answer = {};
  for (uint32_t size : {0u, 4u, DW_OP_SIZE_1_0 - 1})
    EXPECT_EQ(rank.submit(size, &answer), DW_INVALID_ARGUMENT) << size;
  EXPECT_EQ(rank.submit(DW_OP_SIZE_1_0, &answer), DW_DONE);
}

TEST_P(Versions, UnknownKindIsUnimplemented) {
  OneRank rank(backend_->api());
  echo_answer answer = {};
  EXPECT_EQ(
      rank.submit(sizeof(dw_op), &answer, 0, [](dw_op* op) { op->kind = 999; }),
      DW_UNIMPLEMENTED);
}

// Growth rule 6: strided pieces, which came with 1.2, are an extension that
// whoever does not know it has to refuse.
TEST_P(Versions, RefusesBlocksAndSkipsWhatIsOptional) {
  static dw_block block = {0, 1, {1, 1, 1}, {0, 0, 0}};
  static dw_ext_blocks blocks = {{sizeof blocks,
                                  DW_EXT_REQUIRED,
                                  {DW_EXT_BLOCKS, sizeof DW_EXT_BLOCKS - 1},
                                  nullptr},
                                 &block,
                                 &block};
  static dw_ext offer = {sizeof offer, 0, {"test.offer", 10}, nullptr};
  OneRank rank(backend_->api());
  echo_answer answer = {};
  const auto submit = [&](void (*extend)(dw_op*)) {
    return rank.submit(sizeof(dw_op), &answer, 0, extend);
  };
  EXPECT_EQ(submit([](dw_op* op) { op->next = &offer; }), DW_DONE);
  answer = {};
  EXPECT_EQ(submit([](dw_op* op) { op->next = &blocks.head; }),
            DW_UNIMPLEMENTED);
  // Behind an offer, too.
  offer.next = &blocks.head;
  EXPECT_EQ(submit([](dw_op* op) { op->next = &offer; }), DW_UNIMPLEMENTED);
  EXPECT_EQ(answer.given_size, 0u) << "an answer to a refused call";
  offer.next = nullptr;
}

// Growth rule 5, for tables and for notes: what a newer plugin only offers is
// ignored, what it demands is refused.
TEST(NewerPlugins, LoadWithWhatTheyOffer) {
  for (const char* name : {"echo_v1_65535", "unknown_offer"}) {
    plugin::Registry registry({});
    const auto backend =
        registry.find(absl::StrCat(DW_TEST_PLUGINS "/", name, ".so"));
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_NE((*backend)->api().flags, 0u) << name;
  }
}

TEST(NewerPlugins, AreRefusedWithWhatTheyDemand) {
  plugin::Registry registry({});
  const auto backend = registry.find(DW_TEST_PLUGINS "/needs_v1_65535.so");
  EXPECT_THAT(std::string(backend.status().message()),
              ::testing::HasSubstr("unknown flags 0x4000"));
}

// Conversely, an operation with a flag of a newer host.
TEST_P(Versions, IgnoresAnOfferOfANewerHostAndRefusesADemand) {
  OneRank rank(backend_->api());
  echo_answer answer = {};
  EXPECT_EQ(rank.submit(sizeof(dw_op), &answer, 0,
                        [](dw_op* op) { op->flags |= 0x40000000u; }),
            DW_DONE);
  EXPECT_EQ(rank.submit(sizeof(dw_op), &answer, 0,
                        [](dw_op* op) { op->flags |= 0x4000u; }),
            DW_UNIMPLEMENTED);
}

INSTANTIATE_TEST_SUITE_P(
    Abi, Versions,
    ::testing::Values(Kind{"echo_c", DW_ABI_MINOR, sizeof(dw_op)},
                      Kind{"echo_cc", DW_ABI_MINOR, sizeof(dw_op)},
                      Kind{"echo_other_c", DW_ABI_MINOR, sizeof(dw_op)},
                      Kind{"echo_other_cc", DW_ABI_MINOR, sizeof(dw_op)},
                      Kind{"echo_v1_0", 0, DW_OP_SIZE_1_0},
                      Kind{"echo_v1_65535", 65535, DW_OP_SIZE_1_0 + 8}),
    [](const auto& test) { return std::string(test.param.file); });

}  // namespace
}  // namespace distwrap::testing
