// Calls in several groups at once, the deadlines of groups below the world, and
// the end of their work when the world ends.
#include "distwrap/distwrap.h"
#include "host_backends.h"
#include "ranks/hub_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace distwrap {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::run_hub_ranks;

const InitOptions kGloo{.backend = "gloo", .init_timeout = absl::Seconds(60)};

Group split(std::vector<std::vector<int>> lists, const Group& parent = {}) {
  const auto group =
      split_group({.parent = parent, .split_ranks = std::move(lists)});
  EXPECT_TRUE(group.ok()) << group.status();
  return group.value_or(Group());
}

void finish(const absl::StatusOr<Work>& work) {
  ASSERT_TRUE(work.ok()) << work.status();
  const absl::Status status = work->wait(absl::Seconds(60));
  ASSERT_TRUE(status.ok()) << status;
}

// Two uneven gathers and a sum in one group, started but not awaited.
class Calls {
 public:
  Calls(const Group& group, int me, int64_t round)
      : group_(group), mine_(value(me, round)), round_(round) {
    const std::vector<int>& members = group.global_ranks();
    for (int r = 0; r < group.size(); ++r) {
      first_.emplace_back(static_cast<size_t>(r + 1));
      second_.emplace_back(static_cast<size_t>(2 * r + 1));
      sum_ += value(members[static_cast<size_t>(r)], round);
    }
    const auto rank = static_cast<size_t>(group.rank());
    in_.assign(first_[rank].size(), mine_);
    more_.assign(second_[rank].size(), -mine_);
  }

  void start() {
    const OpOptions o{.group = group_, .async = true};
    works_.push_back(all_gather(views(first_), TensorView(in_), o));
    works_.push_back(all_reduce(TensorView(&mine_, 1), ReduceOp::kSum, o));
    works_.push_back(all_gather(views(second_), TensorView(more_), o));
  }

  void expect_exact() {
    for (size_t i = works_.size(); i-- > 0;) finish(works_[i]);
    EXPECT_EQ(mine_, sum_);
    for (int r = 0; r < group_.size(); ++r) {
      const auto i = static_cast<size_t>(r);
      const int64_t theirs = value(group_.global_ranks()[i], round_);
      EXPECT_EQ(first_[i], std::vector<int64_t>(i + 1, theirs));
      EXPECT_EQ(second_[i], std::vector<int64_t>(2 * i + 1, -theirs));
    }
  }

 private:
  static int64_t value(int rank, int64_t round) {
    return 1000 * round + rank + 1;
  }
  static std::vector<TensorView> views(
      std::vector<std::vector<int64_t>>& parts) {
    std::vector<TensorView> made;
    for (std::vector<int64_t>& part : parts) made.emplace_back(part);
    return made;
  }

  const Group group_;
  int64_t mine_, round_, sum_ = 0;
  std::vector<int64_t> in_, more_;
  std::vector<std::vector<int64_t>> first_, second_;
  std::vector<absl::StatusOr<Work>> works_;
};

class Siblings : public ::testing::TestWithParam<const char*> {};

// Rows, columns and the world of a grid, whose ranks begin in different orders.
TEST_P(Siblings, WorkAtOnce) {
  InitOptions options = kGloo;
  options.backend = GetParam();
  run_hub_ranks(4, options, [](Session& session) {
    const int me = session.rank();
    const Group groups[] = {split({{3, 1}, {2, 0}}), split({{0, 1}, {3, 2}}),
                            session.world()};
    for (int round = 0; round < 20; ++round) {
      std::vector<Calls> calls;
      calls.reserve(3);
      for (int i = 0; i < 3; ++i)
        calls.emplace_back(groups[(i + me) % 3], me, round);
      for (Calls& one : calls) one.start();
      for (Calls& one : calls) one.expect_exact();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, Siblings,
                         ::testing::ValuesIn(testing::host_backends()),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

// Messages between ranks 0 and 2; the two ranks send first.
void meet_over_two_devices(const Group& pair, int me) {
  constexpr Device kCuda{2, 0};
  const auto far = [&](float& x) {
    return TensorView(&x, 1, DType::kF32, kCuda);
  };
  const auto mine = static_cast<float>(me + 1), other = 4.0f - mine;
  float out = mine, in = 0, far_out = -mine, far_in = 0, sum = mine,
        far_sum = mine;
  const Peer peer = Peer::global(2 - me);
  Batch batch;
  batch.send(TensorView(&out, 1), peer, 0, {.group = pair});
  batch.send(far(far_out), peer, 0);
  batch.all_reduce(far(far_sum), ReduceOp::kSum, {.group = pair});
  batch.all_reduce(TensorView(&sum, 1), ReduceOp::kSum, {.group = pair});
  batch.recv(far(far_in), peer, 0);
  batch.recv(TensorView(&in, 1), peer, 0, {.group = pair});
  finish(batch.submit());
  EXPECT_EQ(in, other);
  EXPECT_EQ(far_in, -other);
  EXPECT_EQ(sum, 4);
  EXPECT_EQ(far_sum, 4);
}

// One batch over two groups and two devices with different backends.
TEST(GroupCalls, ABatchOverTwoGroupsAndTwoDevices) {
  InitOptions options = kGloo;
  options.backend = "cpu:gloo,cuda:faux";
  run_hub_ranks(3, options, [](Session& session) {
    const int me = session.rank();
    const Group pair = split({{2, 0}});
    if (pair) meet_over_two_devices(pair, me);
    finish(barrier());
  });
}

// A member that does not come breaks its group, by the group's own limit, and
// neither the world nor another group.
TEST(GroupCalls, AChildKeepsItsOwnDeadline) {
  for (const bool objects : {false, true})
    run_hub_ranks(3, kGloo, [&](Session& session) {
      const int me = session.rank();
      const Group other = split({{0, 1, 2}});
      const auto hasty = split_group({.split_ranks = {{2, 0}},
                                      .timeout = absl::Milliseconds(200),
                                      .group_desc = "hasty"});
      ASSERT_TRUE(hasty.ok()) << hasty.status();
      if (me == 2) {
        const OpOptions o{.group = *hasty};
        std::vector<float> x(4, 1);
        const absl::Status late =
            objects ? all_gather_object(1, o).status()
                    : all_reduce(TensorView(x), ReduceOp::kSum, o).status();
        EXPECT_EQ(error_reason(late), Reason::kTimedOut) << late;
        EXPECT_THAT(std::string(late.message()),
                    HasSubstr("on \"world/hasty\" (rank 0 of 2)"));
        const absl::Status after = barrier(o).status();
        EXPECT_EQ(error_reason(after), Reason::kGroupBroken) << after;
      }
      for (const Group& whole : {session.world(), other}) {
        int64_t one = 1;
        finish(
            all_reduce(TensorView(&one, 1), ReduceOp::kSum, {.group = whole}));
        EXPECT_EQ(one, 3);
      }
    });
}

// Lesson M5: the limit of operations does not apply to the start.
TEST(GroupCalls, AMillisecondForOperationsDoesNotBreakTheStart) {
  InitOptions options = kGloo;
  options.timeout = absl::Milliseconds(1);
  run_hub_ranks(3, options, [](Session& session) {
    const Group child = split({{2, 1, 0}});
    EXPECT_EQ(child.timeout(), absl::Milliseconds(1));
    for (const Group& group : {session.world(), child}) {
      ASSERT_TRUE(set_timeout(group, absl::Seconds(60)).ok());
      finish(barrier({.group = group}));
    }
  });
}

// Unanswered work of the world, a child and a grandchild ends with them, by
// this rank's end or by the other's, whichever is first. A second end is legal.
TEST(GroupCalls, TheWorldEndsTwiceWithWorkPending) {
  run_hub_ranks(2, kGloo, [](Session& session) {
    const int me = session.rank();
    const Group child = split({{1, 0}});
    const Group grandchild = split({{1, 0}}, child);
    std::vector<std::vector<float>> into(3, std::vector<float>(8));
    std::vector<Work> works;
    for (const Group& group : {grandchild, session.world(), child}) {
      const auto work = irecv(TensorView(into[works.size()]),
                              Peer::global(1 - me), 0, {.group = group});
      ASSERT_TRUE(work.ok()) << work.status();
      works.push_back(*work);
    }
    EXPECT_TRUE(session.close(absl::Milliseconds(100)).ok());
    for (int again = 0; again < 2; ++again)
      for (const Work& work : works) {
        const absl::Status status = work.wait(absl::Seconds(30));
        EXPECT_THAT(error_reason(status),
                    AnyOf(Reason::kAborted, Reason::kPeerLost))
            << status;
        EXPECT_EQ(work.status(), status);
      }
    for (const Group& group : {grandchild, child, session.world()})
      EXPECT_TRUE(destroy_process_group(group).ok()) << "dead: fine";
    // The last of these calls has unbound the session.
    EXPECT_EQ(error_reason(destroy_process_group()), Reason::kNotInitialized);
    const absl::Status late = barrier({.group = grandchild}).status();
    EXPECT_EQ(error_reason(late), Reason::kGroupClosed) << late;
  });
}

// Lesson Y5: operations in flight end as aborted, on every member, when the
// group is aborted.
TEST(GroupCalls, AnAbortEndsWorkInFlightOnAllMembers) {
  run_hub_ranks(3, kGloo, [](Session& session) {
    const int me = session.rank();
    const Group group = split({{0, 1, 2}});
    std::vector<float> x(8);
    const auto pending =
        irecv(TensorView(x), Peer::group((me + 1) % 3), 7, {.group = group});
    ASSERT_TRUE(pending.ok()) << pending.status();
    ASSERT_TRUE(barrier().ok());
    if (me == 1) {
      ASSERT_TRUE(abort(group).ok());
    }
    for (int again = 0; again < 2; ++again) {
      const absl::Status status = pending->wait(absl::Seconds(60));
      EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
    }
    EXPECT_EQ(pending->state(), WorkState::kAborted);
    ASSERT_TRUE(barrier().ok()) << "the world is unharmed";
  });
}

// A call that waits for other ranks ends when its rank aborts the group, and so
// does the call on the ranks that wait with it.
TEST(GroupCalls, AnAbortEndsACallThatWaits) {
  run_hub_ranks(3, kGloo, [](Session& session) {
    const Group group = split({{0, 1, 2}});
    const auto expect_aborted = [&] {
      const int64_t begin = Deadline::now_ns();
      const absl::Status status =
          split_group({.parent = group, .split_ranks = {{0, 1, 2}}}).status();
      EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
      EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - begin),
                absl::Seconds(20));
    };
    if (session.rank() == 0) {
      std::thread waits(expect_aborted);
      absl::SleepFor(absl::Milliseconds(100));
      EXPECT_TRUE(abort(group).ok());
      waits.join();
    } else if (session.rank() == 1) {
      expect_aborted();
    }
    ASSERT_TRUE(barrier().ok()) << "the world is unharmed";
    EXPECT_EQ(split({{0, 1, 2}}).size(), 3);
  });
}

}  // namespace
}  // namespace distwrap
