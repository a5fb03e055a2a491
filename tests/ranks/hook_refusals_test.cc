// The effect of a call that a hook refuses, on every rank.
#include "base/error.h"
#include "host_backends.h"
#include "ranks/facade_ranks.h"
#include "ranks/hook_diary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace distwrap::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// H2: a refusal is an error on all ranks, which names the refusing rank.
class Refusals : public ::testing::TestWithParam<const char*> {
 protected:
  void run(int n, const std::function<void(int)>& body) const {
    run_ranks(n, {.backend = GetParam(), .timeout = absl::Seconds(60)},
              [&](Session& session) {
                bind_session(session);
                body(session.rank());
                bind_session({});
              });
  }
};

Hooks refusing(absl::string_view op) {
  return {.pre = [op = std::string(op)](const HookedCall& call) {
    return call.op == op ? absl::PermissionDeniedError("not on my watch")
                         : absl::OkStatus();
  }};
}

void expect_names_rank_1(const absl::Status& status) {
  EXPECT_FALSE(status.ok());
  const ErrorInfo info = error_info(status).value_or(ErrorInfo{});
  EXPECT_EQ(info.ranks, std::vector<int>{1}) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not on my watch"));
}

// All ranks have called before rank 1 refuses. It may do so while others are
// still leaving, which then get the error here. Returns whether the test
// continues.
bool meet(int rank) {
  const absl::Status status = barrier().status();
  if (rank != 1 && !status.ok()) {
    expect_names_rank_1(status);
    return false;
  }
  EXPECT_TRUE(status.ok()) << status;
  return status.ok();
}

TEST_P(Refusals, OfACollectiveReachAllRanks) {
  for (const bool async : {false, true})
    run(3, [&](int rank) {
      Diary diary;
      Hook hook, watching;
      if (rank == 1) {
        hook = *add_hook({}, refusing("all_reduce"));
        watching = *add_hook({}, writing(diary));
      }
      if (!meet(rank)) return;
      std::vector<float> x(1000, 1);
      absl::StatusOr<Work> work =
          all_reduce(TensorView(x), ReduceOp::kSum, {.async = async});
      const absl::Status status = work.ok() ? work->wait() : work.status();
      if (rank != 1) return expect_names_rank_1(status);
      expect_reason(status, Reason::kAborted, "not on my watch");
      EXPECT_EQ(x, std::vector<float>(1000, 1));
      EXPECT_EQ(error_reason(barrier().status()), Reason::kGroupBroken);
      diary.wait_for(3);
      // Hooks behind the refusing one were not called.
      EXPECT_THAT(diary.take(), ElementsAre("pre barrier", "post barrier ok",
                                            "abort world kAborted"));
    });
}

TEST_P(Refusals, OfMessagesAndBatchesReachThePeer) {
  for (const char* const op : {"send", "batch"})
    run(2, [&](int rank) {
      Hook hook;
      if (rank == 1) hook = *add_hook({}, refusing(op));
      if (!meet(rank)) return;
      float x = 1;
      if (rank == 0)
        return expect_names_rank_1(
            recv(TensorView(&x, 1), Peer::group(1)).status());
      Batch batch;
      batch.send(TensorView(&x, 1), Peer::group(0));
      const absl::Status status = op == std::string("send")
                                      ? send(TensorView(&x, 1), Peer::group(0))
                                      : batch.submit().status();
      expect_reason(status, Reason::kAborted, "not on my watch");
    });
}

TEST_P(Refusals, OfObjectsReachAllRanks) {
  run(3, [&](int rank) {
    Hook hook;
    if (rank == 1) hook = *add_hook({}, refusing("all_gather_object"));
    if (!meet(rank)) return;
    const absl::Status status = all_gather_object(Object(rank)).status();
    if (rank != 1) return expect_names_rank_1(status);
    expect_reason(status, Reason::kAborted, "not on my watch");
  });
}

TEST_P(Refusals, OfASplitBreakNothing) {
  run(3, [&](int rank) {
    Hook hook;
    if (rank == 1) hook = *add_hook({}, refusing("split_group"));
    const SplitOptions all{.split_ranks = {{0, 1, 2}}};
    const absl::Status status = split_group(all).status();
    if (rank == 1)
      expect_reason(status, Reason::kAborted, "not on my watch");
    else
      expect_names_rank_1(status);
    hook.remove();
    const auto again = split_group(all);
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_TRUE(barrier({.group = *again}).ok());
  });
}

TEST_P(Refusals, KeepTheReasonOfTheHook) {
  run(1, [&](int) {
    const Hook hook =
        *add_hook({}, {.pre = [](const HookedCall&) {
                    return base::make_error({.reason = Reason::kOutOfMemory,
                                             .what = "no budget is left"});
                  }});
    expect_reason(barrier().status(), Reason::kOutOfMemory,
                  "no budget is left");
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, Refusals,
                         ::testing::ValuesIn(testing::host_backends()),
                         testing::name_of_backend);

}  // namespace
}  // namespace distwrap::testing
