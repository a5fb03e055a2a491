// Asynchronous operations for which the backend has no resources, and who
// submits them again.
#include "comm/batch_record.h"
#include "unit/comm/communicator_fixture.h"

#include <absl/synchronization/notification.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::HasSubstr;

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
  const absl::Status kept = first.cancel();
  EXPECT_EQ(error_reason(kept), Reason::kAlreadySubmitted);
  EXPECT_THAT(std::string(kept.message()),
              HasSubstr("another collective after it"));
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

// A batch of two messages and a collective, all of which wait for resources.
class QueuedBatch : public Queued {
 protected:
  void SetUp() override {
    Queued::SetUp();
    fake_.submit_group = [this](const dw_group_item* items, uint64_t n,
                                dw_error*) {
      const int32_t answer = answer_;
      if (answer == DW_AGAIN) return answer;
      base::MutexLock lock(mutex_);
      for (uint64_t i = 0; i < n; ++i) {
        kinds_.push_back(items[i].op->kind);
        works_.push_back(items[i].work);
      }
      return answer;
    };
    Communicator& in = batch_.on(*comm_);
    ASSERT_TRUE(in.recv(view(y_), 1).ok());
    ASSERT_TRUE(in.send(view(x_), 1).ok());
    ASSERT_TRUE(in.barrier().ok());
    absl::StatusOr<std::vector<Work>> works = batch_.submit();
    ASSERT_TRUE(works.ok()) << works.status();
    items_ = *std::move(works);
    for (const Work& item : items_) ASSERT_EQ(item.state(), WorkState::kQueued);
  }
  std::vector<uint16_t> kinds() {
    base::MutexLock lock(mutex_);
    return kinds_;
  }

  BatchRecord batch_;
  std::vector<Work> items_;
  std::vector<uint16_t> kinds_;
};

TEST_F(QueuedBatch, StartsWithoutAnItemThatWasTakenBack) {
  EXPECT_TRUE(items_[1].cancel().ok());
  EXPECT_EQ(items_[1].state(), WorkState::kAborted);
  EXPECT_EQ(error_reason(items_[1].wait()), Reason::kAborted);
  answer_ = DW_OK;
  for (const size_t i : {0u, 2u}) wait_until_submitted(items_[i]);
  EXPECT_EQ(kinds(), (std::vector<uint16_t>{DW_OP_RECV, DW_OP_BARRIER}));
  EXPECT_EQ(error_reason(items_[0].cancel()), Reason::kAlreadySubmitted);
  complete_all();
  for (const size_t i : {0u, 2u}) EXPECT_TRUE(items_[i].wait().ok());
  EXPECT_EQ(fake_.aborts, 0);
}

TEST_F(QueuedBatch, IsTakenBackItemByItem) {
  for (const Work& item : items_) EXPECT_TRUE(item.cancel().ok());
  answer_ = DW_DONE;
  EXPECT_TRUE(call().ok());
  EXPECT_TRUE(kinds().empty());
  EXPECT_EQ(seqs(), (std::vector<uint64_t>{1})) << "no number was used";
}

TEST_F(QueuedBatch, IsTakenBackAsAWhole) {
  const Work whole = Work::all(items_);
  EXPECT_TRUE(whole.cancel().ok());
  EXPECT_EQ(error_reason(whole.wait()), Reason::kAborted);
  for (const Work& item : items_) EXPECT_EQ(item.state(), WorkState::kAborted);
  EXPECT_EQ(error_reason(whole.cancel()), Reason::kAlreadySubmitted);
  answer_ = DW_DONE;
  EXPECT_TRUE(call().ok());
  EXPECT_TRUE(kinds().empty());
  EXPECT_EQ(fake_.aborts, 0);
}

TEST_F(QueuedBatch, KeepsAllItemsWhenOneHasStarted) {
  answer_ = DW_OK;
  wait_until_submitted(items_[2]);
  answer_ = DW_AGAIN;
  const Work later = started();
  std::vector<Work> all = items_;
  all.push_back(later);
  const Work whole = Work::all(all);
  EXPECT_EQ(error_reason(whole.cancel()), Reason::kAlreadySubmitted);
  EXPECT_EQ(later.state(), WorkState::kQueued);
  EXPECT_TRUE(later.cancel().ok());
  complete_all();
  EXPECT_EQ(error_reason(whole.wait()), Reason::kAborted);
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
