// The reference checks of backends, over `compose` over several backends.
//
// DISTWRAP_TEST_SEED chooses another sample of calls.
#include "checks.h"
#include "fakes/compose_over.h"
#include "fakes/messages.h"
#include "fakes/only.h"
#include "linked.h"
#include "pace.h"
#include "perfect.h"
#include "sdk/shapes.h"

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

namespace distwrap::conformance {
namespace {

using fakes::compose_over;
using fakes::Only;
using fakes::only;
using fakes::table_of;

constexpr uint64_t kAll = dw_sdk::kEveryType;
constexpr uint32_t kAny = DW_BIT(DW_REDUCE_PREMUL_SUM + 1) - 1;
constexpr uint32_t kSums = DW_BIT(DW_REDUCE_SUM) | DW_BIT(DW_REDUCE_MAX);
constexpr uint32_t kWaits = DW_FLAG_CALLER_WAITS;
constexpr uint64_t kMessages = DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV);

// Messages and groups of them.
constexpr Only kGrouped = {"grouped", kMessages, kAll, 1, kWaits, true};
// All operations, but only plain buffers.
constexpr Only kPlain = {"plain", ~UINT64_C(0), kAll, kAny, kWaits};
// Some collectives, from which `compose` makes the others.
constexpr Only kTrees = {
    "trees", DW_BIT(DW_OP_REDUCE) | DW_BIT(DW_OP_BROADCAST) | kMessages, kAll,
    kSums, kWaits};
constexpr Only kHalves = {
    "halves", DW_BIT(DW_OP_REDUCE_SCATTER) | DW_BIT(DW_OP_ALL_GATHER), kAll,
    kAny, kWaits};
constexpr Only kExchanges = {
    "exchanges",
    DW_BIT(DW_OP_ALL_TO_ALL) | DW_BIT(DW_OP_ALL_GATHER) |
        DW_BIT(DW_OP_BROADCAST),
    DW_BIT(DW_DTYPE_U8) | DW_BIT(DW_DTYPE_I32), 1, kWaits | DW_FLAG_PER_RANK};
constexpr Only kReduces = {"reduces", DW_BIT(DW_OP_ALL_REDUCE), kAll, kAny, 0};

struct Subject {
  const dw_backend_api& (*table)();
  std::vector<int> sizes;
  // Without messages below, only messages of a rank to itself exist.
  bool messages = true;
};

std::vector<Subject> subjects() {
  const std::vector<int> all = all_sizes();
  const std::vector<int> few =
      kSlow ? std::vector<int>{3} : std::vector<int>{2, 3, 5};
  return {
      {compose_over<table_of<dw_plugin_query_v1_messages>>, all},
      {compose_over<table_of<dw_plugin_query_v1_messages_async>>, few},
      {compose_over<table_of<dw_plugin_query_v1_messages_polled>>, few},
      {compose_over<only<perfect_table, kGrouped>>, few},
      {compose_over<only<perfect_table, kPlain>>, few},
      {compose_over<only<perfect_table, kTrees>>, few},
      {compose_over<only<perfect_table, kHalves>>, few, false},
      {compose_over<only<perfect_table, kExchanges>>, few, false},
      {compose_over<only<perfect_table, kReduces>>, few, false},
      {compose_over<table_of<dw_plugin_query_v1_loopback>>, {1}},
      {compose_over<table_of<dw_plugin_query_v1_gloo>>, {1, 3}},
  };
}

// Whether a check needs messages between ranks.
bool needs_messages(const std::string& check) {
  return check == "Messages" || check == "Tags" || check == "OpenReceives" ||
         check == "Subsets" || check == "DifferingMessages" ||
         check == "Groups" || check == "Abort";
}

class ComposeConformance : public testing::Test {
 public:
  ComposeConformance(Subject subject, int size, Check check)
      : subject_(std::move(subject)), size_(size), check_(check) {}

  void TestBody() override {
    Limits limits;
    limits.sizes = subject_.sizes;
    limits.seed = test_seed();
    limits.largest = 5000;
    limits.complete = subject_.messages;
    limits.threads = 2;  // the worker's thread and that of the backend below
    Findings findings;
    check_.run(subject_.table(), size_, limits, findings);
    EXPECT_TRUE(findings.empty())
        << findings.text() << "with DISTWRAP_TEST_SEED=" << test_seed();
  }

 private:
  const Subject subject_;
  const int size_;
  const Check check_;
};

const bool registered = [] {
  std::cout << "DISTWRAP_TEST_SEED=" << test_seed() << std::endl;
  for (const Subject& subject : subjects()) {
    const dw_str name = subject.table().name;
    for (const int size : subject.sizes)
      for (const Check& check : all_checks()) {
        if (size > check.largest_size) continue;
        if (!subject.messages && needs_messages(check.name)) continue;
        const std::string suite =
            std::string(name.data, name.size) + "_" + std::to_string(size);
        testing::RegisterTest(suite.c_str(), check.name, nullptr, nullptr,
                              __FILE__, __LINE__, [=]() -> ComposeConformance* {
                                return new ComposeConformance(subject, size,
                                                              check);
                              });
      }
  }
  return true;
}();

TEST(ComposeConformanceSubjects, AreRegistered) { EXPECT_TRUE(registered); }

}  // namespace
}  // namespace distwrap::conformance
