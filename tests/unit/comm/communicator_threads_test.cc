// Two threads on one communicator.
#include "unit/comm/communicator_fixture.h"

#include <absl/strings/match.h>

#include <atomic>
#include <thread>

namespace distwrap::comm {
namespace {

// A receive waits in the backend until it is let go.
class TwoThreads : public CommunicatorTest {
 protected:
  explicit TwoThreads(uint32_t flags = 0) : CommunicatorTest(flags) {}
  ~TwoThreads() override { let_go(); }

  void receive_in_a_thread(absl::Duration timeout = absl::Seconds(60)) {
    start(timeout);
    fake_.submit = [&](const dw_op& op, dw_work* work, dw_error*) {
      if (op.kind != DW_OP_RECV) {
        beside_ = op;
        works_beside_ += work != nullptr;
        return DW_DONE;
      }
      inside_ = true;
      while (!let_go_) std::this_thread::yield();
      return DW_DONE;
    };
    receiver_ =
        std::thread([this] { EXPECT_TRUE(comm().recv(view(x_), 1, 7).ok()); });
    while (!inside_) std::this_thread::yield();
  }
  void let_go() {
    let_go_ = true;
    if (receiver_.joinable()) receiver_.join();
  }

  std::atomic<bool> inside_{false}, let_go_{false};
  dw_op beside_{};
  int works_beside_ = 0;
  std::thread receiver_;
};

class TwoThreadsBeside : public TwoThreads {
 protected:
  TwoThreadsBeside() : TwoThreads(DW_BACKEND_SUBMIT_BESIDE) {}
};

TEST_F(TwoThreadsBeside, AReceiveThatWaitsLetsOthersIn) {
  receive_in_a_thread();
  EXPECT_TRUE(comm().send(view(y_), 1, 7).ok());
  EXPECT_EQ(beside_.kind, DW_OP_SEND);
  EXPECT_EQ(beside_.flags & DW_FLAG_CALLER_WAITS, 0u);
  EXPECT_EQ(works_beside_, 1);
  EXPECT_TRUE(call().ok()) << "collectives, too";
  EXPECT_EQ(works_beside_, 2);
  let_go();
  EXPECT_TRUE(comm().send(view(y_), 1, 7).ok());
  EXPECT_NE(beside_.flags & DW_FLAG_CALLER_WAITS, 0u) << "alone again";
  EXPECT_EQ(fake_.aborts, 0);
}

TEST_F(TwoThreads, WithoutLeaveToComeInTheCallIsWaitedFor) {
  receive_in_a_thread();
  std::atomic<bool> sent{false};
  std::thread sender([&] {
    EXPECT_TRUE(comm().send(view(y_), 1, 7).ok());
    sent = true;
  });
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_FALSE(sent);
  let_go();
  sender.join();
  EXPECT_NE(beside_.flags & DW_FLAG_CALLER_WAITS, 0u);
}

TEST_F(TwoThreads, WaitingForAnotherThreadsCallEndsAtTheDeadline) {
  receive_in_a_thread();
  const absl::StatusOr<Work> sent =
      comm().send(view(y_), 1, 7, {.timeout = absl::Milliseconds(20)});
  const std::optional<ErrorInfo> info = error_info(sent.status());
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, Reason::kTimedOut);
  EXPECT_EQ(info->deadline, absl::Milliseconds(20));
  EXPECT_TRUE(absl::StrContains(info->what, "another thread"));
  EXPECT_EQ(fake_.aborts, 1) << "as any call that is late";
}

// The error is equal whether the backend or the watchdog notices the deadline.
TEST_F(CommunicatorTest, ALateCallNamesItsLimit) {
  start();
  fake_.submit = [](const dw_op&, dw_work*, dw_error* error) {
    set_error(error, DW_REASON_TIMED_OUT, -1, "fake: late");
    return DW_DEADLINE_EXCEEDED;
  };
  const absl::StatusOr<Work> late = call({.timeout = absl::Seconds(3)});
  const std::optional<ErrorInfo> info = error_info(late.status());
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->deadline, absl::Seconds(3));
}

}  // namespace
}  // namespace distwrap::comm
