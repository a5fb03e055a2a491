#include "unit/comm/work_fixture.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::HasSubstr;

TEST_F(WorkTest, WaitAnyNamesTheFirstThatEnded) {
  start();
  const std::vector<Work> works = pend_many(3);
  EXPECT_EQ(
      error_reason(
          wait_any(works, Deadline::after(absl::Milliseconds(1))).status()),
      Reason::kWaitExpired);
  std::thread completer([&] { fail(1); });
  const absl::StatusOr<size_t> ended = wait_any(works);
  completer.join();
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(*ended, 1u) << "a failed one has ended too";
  finish(0);
  EXPECT_EQ(*wait_any(works), 0u);
  finish(0);
  EXPECT_EQ(*wait_any({works[2], Work()}), 0u);
  EXPECT_EQ(error_reason(wait_any({}).status()), Reason::kInvalidArgument);
}

TEST_F(WorkTest, WaitAllGivesTheFirstError) {
  start();
  const std::vector<Work> works = pend_many(4);
  EXPECT_EQ(
      error_reason(wait_all(works, Deadline::after(absl::Milliseconds(1)))),
      Reason::kWaitExpired);
  fail(2);
  EXPECT_EQ(
      error_reason(wait_all(works, Deadline::after(absl::Milliseconds(1)))),
      Reason::kPeerLost)
      << "more telling than that others still run";
  finish(0);
  finish(0);
  finish(0);
  EXPECT_EQ(wait_all(works).message(), works[2].status().message());
  EXPECT_TRUE(wait_all({works[0], works[1], Work()}).ok());
  EXPECT_TRUE(wait_all({}).ok());
}

TEST_F(WorkTest, AllAsOneEndsWhenAllHave) {
  start();
  const std::vector<Work> works = pend_many(3);
  const Work all = Work::all(works);
  const Work nested = Work::all({all, Work()});
  std::promise<absl::Status> called;
  nested.on_done([&](const absl::Status& status) { called.set_value(status); });
  const absl::StatusOr<int> fd = all.event_fd();
  finish(0);
  fail(1);  // the last of the two that are left
  EXPECT_FALSE(all.test());
  EXPECT_EQ(all.state(), WorkState::kRunning);
  const absl::Status late = all.wait(absl::Milliseconds(1));
  EXPECT_EQ(error_reason(late), Reason::kWaitExpired);
  EXPECT_THAT(std::string(late.message()), HasSubstr("1 of 3 operations"));
  EXPECT_FALSE(readable(*fd));
  finish(0);
  EXPECT_EQ(error_reason(all.wait()), Reason::kPeerLost);
  EXPECT_EQ(all.state(), WorkState::kFailed);
  EXPECT_EQ(all.result().size(), 3u);
  EXPECT_TRUE(readable(*fd));
  EXPECT_EQ(error_reason(called.get_future().get()), Reason::kPeerLost);
  EXPECT_EQ(error_reason(nested.status()), Reason::kPeerLost);
  EXPECT_TRUE(Work::all({}).test());
  EXPECT_TRUE(Work::all({Work(), Work()}).wait().ok());
}

TEST_F(WorkTest, PartsOfADroppedWholeGoOn) {
  start();
  const Work kept = pend();
  Work::all({kept, pend()});
  finish(1);
  EXPECT_FALSE(kept.test());
  finish(0);
  EXPECT_TRUE(kept.wait().ok());
}

TEST_F(WorkTest, AThousandAtOnceNeedNoMoreThreads) {
  start();
  constexpr size_t kMany = 1000;
  std::atomic<size_t> calls{0};
  std::promise<void> last;
  // Allocates everything that the first use needs.
  pend().on_done([&](const absl::Status&) { last.set_value(); });
  finish();
  last.get_future().wait();
  const int before = threads();
  std::vector<Work> works = pend_many(kMany);
  for (const Work& work : works)
    work.on_done([&](const absl::Status&) { ++calls; });
  std::promise<void> done;
  const Work all = Work::all(works);
  EXPECT_EQ(threads(), before);
  for (size_t i = 0; i < kMany; i += 3) works[i] = Work();
  for (size_t i = kMany; i-- > 0;) finish(i * 7 % (i + 1));
  EXPECT_TRUE(all.wait().ok());
  EXPECT_TRUE(wait_all(works).ok());
  EXPECT_EQ(threads(), before);
  all.on_done([&](const absl::Status&) { done.set_value(); });
  done.get_future().wait();
  while (calls < kMany) std::this_thread::yield();
}

TEST_F(WorkTest, HandlesMayGoWhileOperationsEnd) {
  start();
  std::vector<Work> works = pend_many(200);
  for (const Work& work : works) {
    EXPECT_TRUE(work.event_fd().ok());
    work.on_done([](const absl::Status&) {});
  }
  std::vector<Work> copies = works;
  const Work all = Work::all(works);
  std::thread completer([&] {
    for (int i = 0; i < 200; ++i) finish();
  });
  std::thread waiter([&] {
    for (Work& copy : copies) {
      EXPECT_TRUE(wait_any({copy, all}).ok());
      copy = Work();
    }
  });
  for (Work& work : works) work = Work();
  completer.join();
  waiter.join();
  EXPECT_TRUE(all.wait().ok());
}

}  // namespace
}  // namespace distwrap::comm
