#include "unit/comm/work_fixture.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(WorkTest, ADoneHandleAnswersEverything) {
  const Work work;
  EXPECT_TRUE(work.test());
  EXPECT_EQ(work.state(), WorkState::kDone);
  EXPECT_TRUE(work.wait(Deadline::at_ns(0)).ok());
  EXPECT_TRUE(work.result().empty());
  EXPECT_EQ(work.seq(), 0u);
  int calls = 0;
  work.on_done([&](const absl::Status& status) {
    EXPECT_TRUE(status.ok());
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(work.event_fd().status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(work.cancel().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(WorkTest, AnExpiredWaitLeavesTheOperationRunning) {
  start();
  const Work work = pend();
  const absl::Status late = work.wait(Deadline::after(absl::Milliseconds(1)));
  EXPECT_EQ(error_reason(late), Reason::kWaitExpired) << late;
  EXPECT_EQ(error_reason(work.wait(absl::Milliseconds(1))),
            Reason::kWaitExpired);
  EXPECT_EQ(work.state(), WorkState::kRunning);
  EXPECT_TRUE(work.status().ok());
  finish();
  EXPECT_TRUE(work.wait(Deadline::at_ns(0)).ok());
}

TEST_F(WorkTest, GivesOutputsAndNumber) {
  start();
  const Work work = pend();
  ASSERT_EQ(work.result().size(), 1u);
  EXPECT_EQ(work.result()[0].data(), x_.data());
  EXPECT_EQ(work.result()[0].count(), 8);
  EXPECT_EQ(work.result()[0].dtype(), DType::kF32);
  EXPECT_EQ(work.seq(), 1u);
  const absl::StatusOr<Work> send =
      comm().send(TensorView(x_), 1, 0, {.async = true});
  EXPECT_TRUE(send->result().empty());
  EXPECT_EQ(send->seq(), 0u);
  finish();
  finish();
}

TEST_F(WorkTest, TestAsksTheBackendNow) {
  int asked = 0;
  fake_.progress = [&] {
    ++asked;
    if (asked == 2) finish();
    return asked == 2 ? 1 : 0;
  };
  start();
  const Work work = pend();
  EXPECT_FALSE(work.test());
  EXPECT_EQ(work.state(), WorkState::kRunning);
  EXPECT_TRUE(work.test());
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(work.test());
  EXPECT_EQ(asked, 2) << "there is nothing left to ask for";
}

TEST_F(WorkTest, WaitersDriveABackendWithoutThreads) {
  std::atomic<int> asked{0};
  fake_.progress = [&] {
    if (++asked % 5 == 0) finish();
    return 0;
  };
  start();
  EXPECT_TRUE(pend().wait().ok());
  EXPECT_TRUE(Work::all(pend_many(3)).wait().ok());
  EXPECT_TRUE(wait_any(pend_many(1)).ok());
  EXPECT_TRUE(wait_all(pend_many(3)).ok());
}

TEST_F(WorkTest, OutlivesCommunicatorAndBackend) {
  start();
  const std::vector<Work> works = pend_many(2);
  fail(1);
  finish(0);
  comm_.reset();
  backend_.reset();
  EXPECT_EQ(fake_.closes, 1);
  EXPECT_TRUE(works[0].test());
  EXPECT_TRUE(works[0].wait().ok());
  EXPECT_EQ(error_reason(works[1].wait()), Reason::kPeerLost);
  EXPECT_EQ(works[1].seq(), 2u);
  EXPECT_EQ(works[1].result().size(), 1u);
  EXPECT_TRUE(works[1].event_fd().ok());
}

TEST_F(WorkTest, CallbacksRunOnceInOrderOffLocks) {
  start();
  const Work work = pend();
  std::vector<int> order;
  std::promise<void> last;
  work.on_done([&](const absl::Status& status) {
    EXPECT_TRUE(status.ok());
    // any call, the work's own too
    EXPECT_TRUE(work.wait().ok());
    order.push_back(1);
    work.on_done([&](const absl::Status&) {
      order.push_back(3);
      last.set_value();
    });
    fake_.submit = nullptr;
    EXPECT_TRUE(call().ok());
  });
  work.on_done([&](const absl::Status&) { order.push_back(2); });
  EXPECT_TRUE(order.empty());
  finish();
  last.get_future().wait();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST_F(WorkTest, CallbacksOfAnEndedWorkRunHere) {
  start();
  const Work work = pend();
  fail();
  absl::Status told;
  std::thread::id where;
  work.on_done([&](const absl::Status& status) {
    told = status;
    where = std::this_thread::get_id();
  });
  EXPECT_EQ(error_reason(told), Reason::kPeerLost);
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST_F(WorkTest, CallbacksRunWhenTheHandleIsGone) {
  start();
  std::promise<void> called;
  pend().on_done([&](const absl::Status&) { called.set_value(); });
  finish();
  called.get_future().wait();
}

TEST_F(WorkTest, ACallbackThatThrowsIsOnlyLogged) {
  start();
  const Work work = pend();
  std::promise<void> called;
  work.on_done(
      [](const absl::Status&) { throw std::runtime_error("from a test"); });
  work.on_done([](const absl::Status&) { throw 1; });
  work.on_done([&](const absl::Status&) { called.set_value(); });
  finish();
  called.get_future().wait();
}

TEST_F(WorkTest, CallbacksFromSeveralThreadsAllRun) {
  start();
  constexpr int kThreads = 4, kEach = 50;
  std::atomic<int> calls{0};
  {
    const Work work = pend();
    std::vector<std::thread> registrars;
    for (int t = 0; t < kThreads; ++t)
      registrars.emplace_back([&] {
        for (int i = 0; i < kEach; ++i)
          work.on_done([&](const absl::Status&) { ++calls; });
      });
    finish();
    for (std::thread& registrar : registrars) registrar.join();
    std::promise<void> last;
    work.on_done([&](const absl::Status&) { last.set_value(); });
    last.get_future().wait();
  }
  EXPECT_EQ(calls, kThreads * kEach);
}

TEST_F(WorkTest, TheEventIsReadableOnceDone) {
  start();
  const int before = descriptors();
  {
    const Work work = pend();
    Work copy = work;
    const absl::StatusOr<int> fd = work.event_fd();
    ASSERT_TRUE(fd.ok()) << fd.status();
    EXPECT_EQ(*copy.event_fd(), *fd);
    EXPECT_FALSE(readable(*fd));
    finish();
    EXPECT_TRUE(readable(*fd));
    EXPECT_TRUE(readable(*fd)) << "for ever";
    EXPECT_EQ(descriptors(), before + 1);
  }
  EXPECT_EQ(descriptors(), before);
  Work late = pend();
  finish();
  EXPECT_TRUE(readable(*late.event_fd()));
  // with the last handle, not with the operation
  late = pend();
  EXPECT_TRUE(late.event_fd().ok());
  late = Work();
  EXPECT_EQ(descriptors(), before);
  finish();
}

TEST_F(WorkTest, NoDescriptorLeftIsAnError) {
  start();
  const Work work = pend();
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit none = old;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::StatusOr<int> fd = work.event_fd();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_EQ(error_reason(fd.status()), Reason::kResourceLimit) << fd.status();
  EXPECT_TRUE(work.event_fd().ok());
  finish();
}

TEST_F(WorkTest, WhatTheBackendHasIsNotTakenBack) {
  start();
  const Work work = pend();
  const absl::Status running = work.cancel();
  EXPECT_EQ(running.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(running.message()),
              HasSubstr("the backend has the operation already"));
  EXPECT_EQ(work.state(), WorkState::kRunning);
  finish();
  EXPECT_THAT(std::string(work.cancel().message()),
              HasSubstr("the operation has ended"));
}

TEST(CallbackThreadTest, RunsWhatIsLeftAtItsEnd) {
  std::vector<int> order;
  {
    CallbackThread thread;
    ASSERT_TRUE(thread.start().ok());
    for (int i = 0; i < 3; ++i) thread.post([&, i] { order.push_back(i); });
  }
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(CallbackThreadTest, MayEndInsideACallback) {
  auto thread = std::make_unique<CallbackThread>();
  ASSERT_TRUE(thread->start().ok());
  std::promise<void> after;
  std::promise<void> posted;
  thread->post([&] {
    posted.get_future().wait();
    thread.reset();
  });
  thread->post([&] { after.set_value(); });
  posted.set_value();
  after.get_future().wait();
}

}  // namespace
}  // namespace distwrap::comm
