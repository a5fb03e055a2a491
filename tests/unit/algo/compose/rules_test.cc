// Messages of a rank to itself, refusals, sequence numbers below, and
// impossible operations.
#include "algo/compose/compose.h"
#include "calls.h"
#include "fakes/only.h"
#include "perfect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::conformance {
namespace {

using fakes::Only;
using fakes::only;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ComposeSelfTest, WhoWaitsForHimselfIsRefused) {
  on_ranks(kMessages(), 2, [](Member& member) {
    std::vector<int32_t> a = {1}, b = {2};
    for (const uint16_t kind : {uint16_t{DW_OP_SEND}, uint16_t{DW_OP_RECV}}) {
      dw_error error = {};
      const int32_t code =
          call(member, message(kind, member.rank, 5, a), &error);
      if (code != DW_INVALID_ARGUMENT ||
          std::string(error.text).find("oneself") == std::string::npos)
        member.find(error_text(code, error));
    }
    // Succeeds when the receive was posted before, but only with the same tag.
    auto other = start(member, message(DW_OP_RECV, member.rank,
                                       DW_TAG(DW_TAG_CLASS_BATCH, 5), b));
    std::vector<int32_t> got = {0};
    auto open = start(member, message(DW_OP_RECV, member.rank, 5, got));
    call_well(member, message(DW_OP_SEND, member.rank, 5, a));
    finish_well(member, *open);
    if (got != a || other->work.completions() != 0) member.find("a wrong tag");
    call_well(member, message(DW_OP_SEND, member.rank,
                              DW_TAG(DW_TAG_CLASS_BATCH, 5), a));
    finish_well(member, *other);
    if (b != a) member.find("a wrong message");
  });
}

TEST(ComposeSelfTest, SizesThatDifferFailOnBothSides) {
  on_ranks(kMessages(), 1, [](Member& member) {
    std::vector<int32_t> two = {1, 2}, one = {7};
    auto work = start(member, message(DW_OP_SEND, 0, 0, two));
    dw_error error = {};
    const int32_t code = call(member, message(DW_OP_RECV, 0, 0, one), &error);
    if (code != DW_FAILED_PRECONDITION ||
        error.reason != DW_REASON_CALL_MISMATCH)
      member.find("receive: " + error_text(code, error));
    if (finish(member, *work) != DW_FAILED_PRECONDITION ||
        work->work.error().reason != DW_REASON_CALL_MISMATCH)
      member.find("send: " + error_text(work->work.code(), work->work.error()));
    if (one[0] != 7) member.find("wrote into the receive");
  });
}

TEST(ComposeSetTest, WhatCannotBeIsRefusedBeforeAnythingBegins) {
  on_ranks(kMessages(), 2, [](Member& member) {
    std::vector<int32_t> a = {1}, b = {2}, c = {3};
    const int other = 1 - member.rank;
    const auto refused = [&](std::vector<dw_op> ops, int32_t want) {
      dw_error error = {};
      const int32_t code = submit_set(member, ops, &error);
      if (code != want || error.text[0] == '\0')
        member.find(error_text(code, error));
    };
    const dw_op sends = message(DW_OP_SEND, other, 1, a);
    refused({sends, message(DW_OP_SEND, member.rank, 1, b)},
            DW_INVALID_ARGUMENT);
    dw_op unknown = op_of(999);
    refused({sends, unknown}, DW_UNIMPLEMENTED);
    refused({sends, message(DW_OP_RECV, 2, 1, b)}, DW_INVALID_ARGUMENT);
    std::vector<dw_op> mixed = {sends, message(DW_OP_RECV, other, 1, b)};
    mixed[0].flags = DW_FLAG_CALLER_WAITS;
    dw_work work;
    const dw_group_item items[] = {{member.comm, &mixed[0], nullptr},
                                   {member.comm, &mixed[1], &work}};
    if (member.api.submit_group(member.backend, items, 2, nullptr) !=
        DW_INVALID_ARGUMENT)
      member.find("a set of which some wait");
    if (work.completions() != 0) member.find("completed though refused");
    // Nothing had started, so the same messages still match.
    auto open = start(member, message(DW_OP_RECV, other, 1, c));
    call_well(member, sends);
    finish_well(member, *open);
    if (c != a) member.find("a wrong message");
  });
}

// The sequence numbers that arrive below.
std::mutex seen_mutex;
std::vector<uint64_t> seen;

const dw_backend_api& recording() {
  static const dw_backend_api table = [] {
    dw_backend_api api = perfect_table();
    api.submit = [](dw_comm* comm, const dw_op* op, dw_work* work,
                    dw_error* error) {
      {
        std::lock_guard<std::mutex> lock(seen_mutex);
        seen.push_back(op->seq);
      }
      return perfect_table().submit(comm, op, work, error);
    };
    return api;
  }();
  return table;
}

constexpr Only kParts = {
    "parts", DW_BIT(DW_OP_REDUCE_SCATTER) | DW_BIT(DW_OP_ALL_GATHER),
    ~UINT64_C(0), ~0u, DW_FLAG_CALLER_WAITS};

const dw_backend_api& recorded_parts() {
  static const dw_backend_api table = [] {
    dw_backend_api api = only<perfect_table, kParts>();
    api.submit = recording().submit;
    return api;
  }();
  return table;
}

TEST(ComposeSeqTest, StepsHaveNumbersOfTheirOwn) {
  seen.clear();
  on_ranks(compose_over<recorded_parts>(), 1, [](Member& member) {
    std::vector<int32_t> a(4, 1), b(4);
    member.next_seq = 3;
    call_well(member, collective(member, DW_OP_ALL_GATHER, a, b));  // native
    call_well(member, collective(member, DW_OP_ALL_REDUCE, a, b));
    dw_op in_place = collective(member, DW_OP_ALL_GATHER, a, a);  // a copy
    in_place.flags = DW_FLAG_IN_PLACE;
    call_well(member, in_place);
  });
  EXPECT_THAT(seen, ElementsAre(48, 64, 65, 80));
}

// All messages, and all_reduce of 8 to 64 bytes; counts the latter.
std::atomic<int> native_calls{0};
const dw_backend_api& limited() {
  static const dw_backend_api table = [] {
    dw_backend_api api = perfect_table();
    api.caps = [](dw_backend*, const dw_caps_row** rows, uint64_t* n,
                  dw_error*) -> int32_t {
      static constexpr uint32_t kHost = DW_BIT(DW_DEVICE_CPU);
      static constexpr dw_caps_row kRows[] = {
          {DW_BIT(DW_OP_SEND) | DW_BIT(DW_OP_RECV), ~UINT64_C(0),
           DW_BIT(DW_REDUCE_NONE), DW_FLAG_CALLER_WAITS, kHost, 0, 0, 0},
          {DW_BIT(DW_OP_ALL_REDUCE), ~UINT64_C(0), ~1u,
           DW_FLAG_CALLER_WAITS | DW_FLAG_IN_PLACE, kHost, 0, 8, 64}};
      *rows = kRows;
      *n = std::size(kRows);
      return DW_OK;
    };
    api.submit = [](dw_comm* comm, const dw_op* op, dw_work* work,
                    dw_error* error) {
      if (op->kind == DW_OP_ALL_REDUCE) native_calls.fetch_add(1);
      return perfect_table().submit(comm, op, work, error);
    };
    return api;
  }();
  return table;
}

TEST(ComposeLimitsTest, TheBackendsOwnServesTheSizesOfItsRow) {
  native_calls = 0;
  on_ranks(compose_over<limited>(), 1, [](Member& member) {
    for (const auto& [count, own] :
         {std::pair{1, 0}, {2, 1}, {16, 2}, {17, 2}}) {
      std::vector<int32_t> a(static_cast<size_t>(count), 3), b(a.size());
      call_well(member, collective(member, DW_OP_ALL_REDUCE, a, b));
      if (b != a) member.find("a wrong sum of " + std::to_string(count));
      if (native_calls != own)
        member.find(std::to_string(count) + " elements: " +
                    std::to_string(native_calls) + " own calls");
    }
  });
}

// A backend that never has resources.
const dw_backend_api& busy() {
  static const dw_backend_api table = [] {
    dw_backend_api api = table_of<dw_plugin_query_v1_messages>();
    api.submit = [](dw_comm*, const dw_op*, dw_work*, dw_error*) -> int32_t {
      return DW_AGAIN;
    };
    return api;
  }();
  return table;
}

TEST(ComposeFailureTest, WithoutResourcesItEndsByTheDeadline) {
  on_ranks(compose_over<busy>(), 2, [](Member& member) {
    dw_op op = barrier(member);
    op.timeout_ns = 30'000'000;
    dw_error error = {};
    const int32_t code = call(member, op, &error);
    if (code != DW_DEADLINE_EXCEEDED || error.reason != DW_REASON_TIMED_OUT)
      member.find(error_text(code, error));
    auto work = start(member, op);
    if (finish(member, *work) != DW_DEADLINE_EXCEEDED)
      member.find("asynchronous: " + std::to_string(work->work.code()));
  });
}

TEST(ComposeFailureTest, WithoutResourcesTheHostQueues) {
  on_ranks(compose_over<busy>(), 2, [](Member& member) {
    std::vector<int32_t> values = {1};
    const dw_op send = message(DW_OP_SEND, 1 - member.rank, 1, values);
    dw_work work;
    dw_error error = {};
    const int32_t code = member.api.submit(member.comm, &send, &work, &error);
    if (code != DW_AGAIN) member.find(error_text(code, error));
    if (work.completions() != 0) member.find("completed though not started");
  });
}

TEST(ComposeFailureTest, WithoutScratchNothingIsTouched) {
  dw_host_api poor = host_table();
  poor.scratch_alloc = [](void*, uint64_t) -> void* { return nullptr; };
  const dw_backend_api& api = kMessages();
  const dw_open_info info = open_info();
  dw_backend* backend = nullptr;
  ASSERT_EQ(api.open(&poor, &info, &backend, nullptr), DW_OK);
  dw_setup_info group = {};
  group.struct_size = sizeof group;
  group.flags = DW_SETUP_COMMUNICATOR;
  group.size = 1;
  group.uid = UINT64_C(1) << 40;
  dw_setup* setup = nullptr;
  dw_blob blob = {};
  dw_setup_result result = {};
  ASSERT_EQ(api.setup_begin(backend, &group, &setup, &blob, nullptr), DW_OK);
  ASSERT_EQ(api.setup_step(setup, &blob, 1, &blob, &result, nullptr), DW_DONE);
  std::vector<int32_t> both = {1, 2};
  dw_op op = op_of(DW_OP_ALL_TO_ALL);
  op.in = op.out = buf_of(both);
  op.flags = DW_FLAG_IN_PLACE | DW_FLAG_CALLER_WAITS;
  op.seq = 1;
  dw_error error = {};
  EXPECT_EQ(api.submit(result.comm, &op, nullptr, &error),
            DW_RESOURCE_EXHAUSTED);
  EXPECT_EQ(error.reason, DW_REASON_OUT_OF_MEMORY);
  EXPECT_THAT(both, ElementsAre(1, 2));
  // Nothing was started, so the group is intact.
  dw_op next = op_of(DW_OP_BARRIER);
  next.flags = DW_FLAG_CALLER_WAITS;
  next.seq = 2;
  EXPECT_EQ(api.submit(result.comm, &next, nullptr, &error), DW_DONE);
  EXPECT_EQ(api.comm_destroy(result.comm, 0, nullptr), DW_OK);
  api.close(backend);
}

TEST(ComposeOpenTest, TakesOneInnerTableThatIsNotOpen) {
  const auto opened = [](const dw_inner* inner, uint64_t n, std::string* text) {
    dw_open_info info = open_info();
    info.inner = inner;
    info.n_inner = n;
    dw_backend* backend = nullptr;
    dw_error error = {};
    const int32_t code =
        algo::compose_api().open(&host_table(), &info, &backend, &error);
    if (code == DW_OK) algo::compose_api().close(backend);
    *text = error.text;
    return code;
  };
  const dw_backend_api& messages = table_of<dw_plugin_query_v1_messages>();
  dw_backend_api lacking = messages;
  lacking.submit = nullptr;
  std::string text;
  const dw_inner good[] = {{&messages, nullptr}, {&messages, nullptr}};
  EXPECT_EQ(opened(good, 1, &text), DW_OK) << text;
  EXPECT_EQ(opened(nullptr, 0, &text), DW_INVALID_ARGUMENT);
  EXPECT_EQ(opened(good, 2, &text), DW_INVALID_ARGUMENT);
  const dw_inner none = {nullptr, nullptr};
  EXPECT_EQ(opened(&none, 1, &text), DW_INVALID_ARGUMENT);
  const dw_inner short_of = {&lacking, nullptr};
  EXPECT_EQ(opened(&short_of, 1, &text), DW_INVALID_ARGUMENT);
  dw_backend* const some = reinterpret_cast<dw_backend*>(&text);
  const dw_inner open = {&messages, some};
  EXPECT_EQ(opened(&open, 1, &text), DW_INVALID_ARGUMENT);
  EXPECT_THAT(text, HasSubstr("opens the inner backend itself"));
}

}  // namespace
}  // namespace distwrap::conformance
