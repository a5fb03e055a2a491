// Groups that cannot be made, and groups that end.
#include "distwrap/distwrap.h"
#include "ranks/counting_store.h"
#include "ranks/hub_ranks.h"

#include <absl/synchronization/notification.h>
#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace distwrap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_hub_ranks;

const InitOptions kPerfect{.backend = "perfect",
                           .init_timeout = absl::Seconds(60)};
const InitOptions kGloo{.backend = "gloo", .init_timeout = absl::Seconds(60)};

absl::Duration since(int64_t start_ns) {
  return absl::Nanoseconds(Deadline::now_ns() - start_ns);
}

TEST(GroupFailures, BadListsAreRefusedAndMayBeMended) {
  run_hub_ranks(2, kPerfect, [](Session&) {
    const std::vector<std::vector<std::vector<int>>> bad = {
        {}, {{}}, {{0}, {}}, {{0, 2}}, {{-1}}, {{0, 0}}, {{0, 1}, {1}}};
    for (const auto& lists : bad)
      EXPECT_EQ(error_reason(split_group({.split_ranks = lists}).status()),
                Reason::kInvalidArgument);
    EXPECT_EQ(
        error_reason(new_group({.ranks = std::vector<int>{1, 1}}).status()),
        Reason::kInvalidArgument);
    EXPECT_EQ(error_reason(split_group({.split_ranks = {{0, 1}},
                                        .timeout = absl::ZeroDuration()})
                               .status()),
              Reason::kInvalidArgument);
    EXPECT_TRUE(split_group({.split_ranks = {{0, 1}}}).ok());
  });
}

// All ranks learn of the failure at once, whichever group they would have been
// in.
TEST(GroupFailures, DifferentListsFailOnAllRanks) {
  run_hub_ranks(4, kPerfect, [](Session& session) {
    const int64_t start = Deadline::now_ns();
    SplitOptions options{.split_ranks = {{0, 1}, {2, 3}}};
    if (session.rank() == 3) options.split_ranks = {{0, 3}, {1, 2}};
    const absl::Status status = split_group(options).status();
    EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
    EXPECT_LT(since(start), absl::Seconds(30));
    const std::vector<int> ranks = error_info(status)->ranks;
    EXPECT_EQ(ranks.size(), 2u);
    EXPECT_TRUE(ranks[0] == 3 || ranks[1] == 3) << status;
    // The next call is a new one.
    EXPECT_TRUE(split_group({.split_ranks = {{0, 1, 2, 3}}}).ok());
  });
}

TEST(GroupFailures, DifferentCallsFailOnAllRanks) {
  run_hub_ranks(2, kPerfect, [](Session& session) {
    const absl::Status status =
        session.rank() == 0 ? split_group({.split_ranks = {{0, 1}}}).status()
                            : new_group().status();
    EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("new_group"));
  });
}

TEST(GroupFailures, MembersThatDifferInTheBackendAreTold) {
  run_hub_ranks(2, kPerfect, [](Session& session) {
    const absl::Status status =
        new_group({.backend = session.rank() == 0 ? "perfect" : "gloo",
                   .use_local_synchronization = true})
            .status();
    EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
  });
}

TEST(GroupFailures, AMissingRankIsNamed) {
  InitOptions options = kPerfect;
  options.init_timeout = absl::Seconds(3);
  std::latch told(2);
  run_hub_ranks(3, options, [&](Session& session) {
    if (session.rank() == 1) return told.wait();
    const absl::Status status = split_group({.split_ranks = {{0, 2}}}).status();
    EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
    EXPECT_THAT(error_info(status)->ranks, ElementsAre(1));
    told.count_down();
  });
}

TEST(GroupFailures, DropInIsStrict) {
  InitOptions options = kPerfect;
  options.drop_in = true;
  run_hub_ranks(2, options, [](Session& session) {
    const absl::Status disabled = new_group().status();
    EXPECT_EQ(error_reason(disabled), Reason::kNewGroupDisabled);
    EXPECT_THAT(std::string(disabled.message()),
                AllOf(HasSubstr("new_group is not supported"),
                      HasSubstr("Use split_group")));
    const auto alone = split_group({.split_ranks = {{0}}});
    if (session.rank() == 0) {
      EXPECT_TRUE(alone.ok() && *alone);
    } else {
      EXPECT_EQ(error_reason(alone.status()), Reason::kRankNotInSplit);
      EXPECT_THAT(std::string(alone.status().message()),
                  HasSubstr("Rank 1 not found in any split_ranks group"));
    }
  });
}

TEST(GroupFailures, DropInNeedsABackend) {
  const absl::Status status =
      Session::create({.rank = 0, .world_size = 1, .drop_in = true}).status();
  EXPECT_EQ(error_reason(status), Reason::kBackendMissing);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("backend must be specified"));
}

TEST(GroupFailures, WithoutASession) {
  for (const absl::Status& status :
       {split_group({.split_ranks = {{0}}}).status(), new_group().status(),
        abort(), get_process_group_ranks().status(), destroy_process_group()}) {
    EXPECT_EQ(error_reason(status), Reason::kNotInitialized);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("called before init_process_group"));
  }
}

TEST(GroupFailures, TheWorldEndsOverGrandchildren) {
  run_hub_ranks(2, kGloo, [](Session& session) {
    const auto child = split_group({.split_ranks = {{0, 1}}});
    ASSERT_TRUE(child.ok()) << child.status();
    const auto grandchild =
        split_group({.parent = *child, .split_ranks = {{1, 0}}});
    ASSERT_TRUE(grandchild.ok()) << grandchild.status();
    const int64_t start = Deadline::now_ns();
    ASSERT_TRUE(session.close().ok());
    EXPECT_LT(since(start), absl::Seconds(10));
    std::vector<float> x(1);
    const absl::Status status =
        all_reduce(TensorView(x), ReduceOp::kSum, {.group = *grandchild})
            .status();
    EXPECT_EQ(error_reason(status), Reason::kGroupClosed) << status;
    EXPECT_EQ(
        error_reason(
            split_group({.parent = *child, .split_ranks = {{0, 1}}}).status()),
        Reason::kGroupClosed);
    EXPECT_TRUE(destroy_process_group(*grandchild).ok()) << "dead: fine";
  });
}

TEST(GroupFailures, AbortReachesAllMembersAndTheGroupsBelow) {
  run_hub_ranks(2, kGloo, [](Session& session) {
    const auto child = split_group({.split_ranks = {{0, 1}}});
    ASSERT_TRUE(child.ok()) << child.status();
    const auto below = split_group({.parent = *child, .split_ranks = {{0, 1}}});
    ASSERT_TRUE(below.ok()) << below.status();
    std::vector<float> x(1);
    if (session.rank() == 0) {
      ASSERT_TRUE(abort(*child).ok());
    } else {
      const int64_t start = Deadline::now_ns();
      const absl::Status status =
          all_reduce(TensorView(x), ReduceOp::kSum, {.group = *below}).status();
      EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
      EXPECT_LT(since(start), absl::Seconds(30));
    }
    // The world is intact.
    EXPECT_TRUE(all_reduce(TensorView(x)).ok());
  });
}

// Rank 1 waits for rank 2, which makes no call; the aborting rank is not
// involved, and leaves at once.
TEST(GroupFailures, AbortReachesThoseThatWaitForSomebodyElse) {
  InitOptions options = kGloo;
  options.check = Check::kSignature;  // the board reports it
  absl::Notification told;
  run_hub_ranks(3, options, [&](Session& session) {
    ASSERT_TRUE(barrier().ok());
    if (session.rank() == 0) {
      ASSERT_TRUE(abort().ok());
    } else if (session.rank() == 1) {
      int32_t never = 0;
      const absl::Status status = recv(TensorView(&never, 1), Peer::group(2), 0,
                                       {.timeout = absl::Seconds(30)})
                                      .status();
      told.Notify();
      EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
      EXPECT_THAT(error_info(status)->ranks, ElementsAre(0));
    } else {
      told.WaitForNotification();
    }
  });
}

// A store that has no answer, or a late one, to the question for the root
// cause.
class Overloaded final : public testing::CountingStore {
 public:
  absl::StatusOr<std::string> compare_set(absl::string_view key,
                                          absl::string_view expected,
                                          absl::string_view desired,
                                          Deadline deadline) override {
    if (is_overloaded) return absl::DeadlineExceededError("busy");
    absl::SleepFor(delay);
    if (deadline.passed()) return absl::DeadlineExceededError("late");
    return CountingStore::compare_set(key, expected, desired, deadline);
  }
  std::atomic<bool> is_overloaded{false};
  inline static thread_local absl::Duration delay = absl::ZeroDuration();
};

// Rank 1 sees that rank 0 has ended their connection, but rank 0 lives.
TEST(GroupFailures, WhoGivesUpIsNotLost) {
  InitOptions options = kGloo;
  options.check = Check::kSignature;
  const auto store = std::make_shared<Overloaded>();
  run_hub_ranks(
      2, options,
      [&](Session& session) {
        ASSERT_TRUE(barrier().ok());
        store->is_overloaded = true;
        if (session.rank() == 0) {
          ASSERT_TRUE(abort().ok());
        } else {
          const absl::Status status =
              barrier({.timeout = absl::Seconds(30)}).status();
          EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
          EXPECT_THAT(error_info(status)->ranks, ElementsAre(0));
        }
      },
      store);
}

// Without a board a broken connection proves nothing, so waiting for the
// store's answer is worthwhile.
TEST(GroupFailures, WhatASlowStoreKnowsIsWaitedFor) {
  InitOptions options = kGloo;
  options.check = Check::kOff;
  run_hub_ranks(
      2, options,
      [&](Session& session) {
        ASSERT_TRUE(barrier().ok());
        if (session.rank() == 0) {
          ASSERT_TRUE(abort().ok());
        } else {
          Overloaded::delay = absl::Milliseconds(100);
          const absl::Status status =
              barrier({.timeout = absl::Seconds(30)}).status();
          Overloaded::delay = absl::ZeroDuration();
          EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
          EXPECT_THAT(error_info(status)->ranks, ElementsAre(0));
        }
      },
      std::make_shared<Overloaded>());
}

}  // namespace
}  // namespace distwrap
