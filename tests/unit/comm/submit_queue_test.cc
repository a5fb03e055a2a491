// Asynchronous operations for which the backend has no resources, and who
// submits them again.
#include "unit/comm/communicator_fixture.h"

#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace distwrap::comm {
namespace {

class Queued : public CommunicatorTest {
 protected:
  // The session's thread submits again as well, so the answer is atomic.
  void SetUp() override {
    fake_.submit = [&](const dw_op& op, dw_work* work, dw_error*) {
      const int32_t answer = answer_;
      if (answer == DW_AGAIN) return answer;
      base::MutexLock lock(mutex_);
      seqs_.push_back(op.seq);
      counts_.push_back(op.in.counts == nullptr ? -1 : op.in.counts[1]);
      works_.push_back(work);
      return answer;
    };
    start();
  }
  Work started() {
    absl::StatusOr<Work> work = call({.async = true});
    EXPECT_TRUE(work.ok()) << work.status();
    return *std::move(work);
  }
  static void wait_until_submitted(const Work& work) {
    while (work.state() == WorkState::kQueued) EXPECT_FALSE(work.test());
  }
  std::vector<uint64_t> seqs() {
    base::MutexLock lock(mutex_);
    return seqs_;
  }
  void complete_all() {
    base::MutexLock lock(mutex_);
    for (dw_work* const work : works_) fake_.complete(work, DW_OK);
    works_.clear();
  }

  std::atomic<int32_t> answer_{DW_AGAIN};
  base::Mutex mutex_;
  std::vector<uint64_t> seqs_;
  std::vector<int64_t> counts_;
  std::vector<dw_work*> works_;
};

TEST_F(Queued, WaitOutsideTheirCallAndStartInOrder) {
  const Work first = started(), second = started();
  EXPECT_EQ(first.state(), WorkState::kQueued);
  EXPECT_EQ(second.state(), WorkState::kQueued);
  EXPECT_FALSE(first.test());
  EXPECT_TRUE(seqs().empty());
  answer_ = DW_OK;
  wait_until_submitted(second);
  EXPECT_EQ(seqs(), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(second.state(), WorkState::kRunning);
  complete_all();
  EXPECT_TRUE(second.wait().ok());
}

TEST_F(Queued, StartWithoutAnybodyWaitingForThem) {
  absl::Notification called;
  const Work work = started();
  work.on_done([&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    called.Notify();
  });
  answer_ = DW_DONE;
  called.WaitForNotification();
}

TEST_F(Queued, KeepWhatTheirCallersGaveThem) {
  std::vector<float> in(8), out(8);
  Work work;
  {
    std::vector<int64_t> counts = {1, 3, 2, 2};
    absl::StatusOr<Work> begun = comm_->all_to_all_v(
        view(out), view(in), {counts}, {counts}, {.async = true});
    ASSERT_TRUE(begun.ok()) << begun.status();
    work = *begun;
    counts.assign(4, 77);
  }
  answer_ = DW_OK;
  wait_until_submitted(work);
  complete_all();
  EXPECT_EQ(counts_, (std::vector<int64_t>{3}));
}

TEST_F(Queued, CanBeTakenBack) {
  const Work first = started(), last = started();
  EXPECT_EQ(error_reason(first.cancel()), Reason::kAlreadySubmitted)
      << "a later collective has its number already";
  EXPECT_TRUE(last.cancel().ok());
  EXPECT_EQ(last.state(), WorkState::kAborted);
  EXPECT_EQ(error_reason(last.wait()), Reason::kAborted);
  EXPECT_TRUE(first.cancel().ok());
  EXPECT_EQ(error_reason(first.cancel()), Reason::kAlreadySubmitted);
  // Nothing was sent, no number was used, and the group is whole.
  EXPECT_EQ(fake_.aborts, 0);
  answer_ = DW_DONE;
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(seqs(), (std::vector<uint64_t>{1}));
}

TEST_F(Queued, AreSubmittedBeforeALaterCallThatWaits) {
  const Work first = started();
  answer_ = DW_DONE;
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(seqs(), (std::vector<uint64_t>{1, 2}));
  EXPECT_TRUE(first.wait().ok());
}

TEST_F(Queued, EndAtTheirDeadline) {
  absl::StatusOr<Work> work =
      call({.async = true, .timeout = absl::Milliseconds(20)});
  ASSERT_TRUE(work.ok()) << work.status();
  EXPECT_EQ(error_reason(work->wait()), Reason::kTimedOut);
  EXPECT_EQ(fake_.aborts, 1);
}

TEST_F(Queued, EndWithTheirGroup) {
  const Work work = started();
  comm_->abort({.reason = Reason::kAborted, .what = "enough"});
  EXPECT_EQ(error_reason(work.wait()), Reason::kAborted);
}

}  // namespace
}  // namespace distwrap::comm
