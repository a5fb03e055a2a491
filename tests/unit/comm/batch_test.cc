#include "base/error.h"
#include "comm/batch_record.h"
#include "unit/comm/communicator_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::HasSubstr;

class BatchTest : public CommunicatorTest {
 protected:
  // Keeps copies of what a group held.
  void keep_groups(int32_t answer) {
    fake_.submit_group = [this, answer](const dw_group_item* items, uint64_t n,
                                        dw_error*) {
      ++groups_;
      ops_.clear();
      works_.clear();
      for (uint64_t i = 0; i < n; ++i) {
        ops_.push_back(*items[i].op);
        works_.push_back(items[i].work);
      }
      return answer;
    };
  }

  BatchRecord batch_;
  int groups_ = 0;
  std::vector<dw_op> ops_;
  std::vector<dw_work*> works_;
};

TEST_F(BatchTest, StartsWhatWasRecordedAsOneGroup) {
  start();
  keep_groups(DW_OK);
  Communicator& in = batch_.on(*comm_);
  {
    const std::vector<int64_t> counts{2, 0, 1, 3};
    ASSERT_TRUE(in.send(TensorView(y_), 1, 7).ok());
    ASSERT_TRUE(
        in.all_gather_v(TensorView(x_), TensorView(y_.data(), 2), {counts})
            .ok());
  }
  EXPECT_EQ(batch_.size(), 2);
  EXPECT_EQ(groups_, 0) << "nothing happens before submit";
  ASSERT_TRUE(comm().barrier().ok());
  const auto works = batch_.submit();
  ASSERT_TRUE(works.ok()) << works.status();
  ASSERT_EQ(works->size(), 2u);
  ASSERT_EQ(groups_, 1);
  EXPECT_EQ(ops_[0].tag, DW_TAG(DW_TAG_CLASS_USER, 7));
  EXPECT_EQ(ops_[0].seq, 0u);
  EXPECT_EQ(ops_[1].seq, 2u) << "numbers are given at the start";
  EXPECT_EQ(ops_[1].out.counts[3], 3) << "arrays are kept";
  EXPECT_EQ((*works)[0].state(), WorkState::kRunning);
  for (dw_work* const work : works_) fake_.complete(work, DW_OK);
  for (const Work& work : *works) EXPECT_TRUE(work.wait().ok());
  EXPECT_EQ(error_reason(batch_.submit().status()), Reason::kAlreadySubmitted);
  EXPECT_EQ(error_reason(in.barrier().status()), Reason::kAlreadySubmitted);
}

TEST_F(BatchTest, DoneInsideTheCall) {
  start();
  keep_groups(DW_DONE);
  ASSERT_TRUE(batch_.on(*comm_).barrier().ok());
  const auto works = batch_.submit();
  ASSERT_TRUE(works.ok());
  EXPECT_EQ(works->front().state(), WorkState::kDone);
}

TEST_F(BatchTest, EmptyIsDone) {
  start();
  const auto works = batch_.submit();
  ASSERT_TRUE(works.ok());
  EXPECT_TRUE(works->empty());
}

TEST_F(BatchTest, NeverSubmittedNothingHasHappened) {
  start();
  {
    BatchRecord dropped;
    ASSERT_TRUE(dropped.on(*comm_).barrier().ok());
  }
  dw_op seen{};
  fake_.submit = [&](const dw_op& op, dw_work*, dw_error*) {
    seen = op;
    return DW_DONE;
  };
  ASSERT_TRUE(comm().barrier().ok());
  EXPECT_EQ(seen.seq, 1u);
}

TEST_F(BatchTest, ABadItemIsNamedAndNothingStarts) {
  start();
  keep_groups(DW_DONE);
  ASSERT_TRUE(batch_.on(*comm_).barrier().ok());
  const absl::Status status =
      batch_.on(*comm_).send(TensorView(y_), 99).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("item 1"));
  EXPECT_FALSE(batch_.on(*comm_).send(TensorView(y_), 98).ok());
  EXPECT_EQ(batch_.size(), 3);
  EXPECT_EQ(batch_.submit().status(), status) << "the first one";
  EXPECT_EQ(groups_, 0);
}

TEST_F(BatchTest, TwoWritersOfOneMemoryAreRefused) {
  start();
  keep_groups(DW_DONE);
  Communicator& in = batch_.on(*comm_);
  ASSERT_TRUE(in.recv(TensorView(x_.data(), 4), 1).ok());
  ASSERT_TRUE(in.recv(TensorView(x_.data() + 4, 4), 2).ok());
  ASSERT_TRUE(in.recv(TensorView(x_.data() + 3, 2), 3).ok());
  const absl::Status status = batch_.submit().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("items 0 and 2"));
  EXPECT_EQ(groups_, 0);
}

TEST_F(BatchTest, ARefusedGroupUsesNoNumbersAndBreaksNothing) {
  start();
  fake_.submit_group = [](const dw_group_item*, uint64_t, dw_error* error) {
    set_error(error, DW_REASON_INVALID_ARGUMENT, -1, "fake: not like this");
    return DW_INVALID_ARGUMENT;
  };
  ASSERT_TRUE(batch_.on(*comm_).barrier().ok());
  ASSERT_TRUE(batch_.on(*comm_).barrier().ok());
  EXPECT_EQ(error_reason(batch_.submit().status()), Reason::kInvalidArgument);
  EXPECT_EQ(fake_.aborts, 0);
  dw_op seen{};
  fake_.submit = [&](const dw_op& op, dw_work*, dw_error*) {
    seen = op;
    return DW_DONE;
  };
  ASSERT_TRUE(comm().barrier().ok());
  EXPECT_EQ(seen.seq, 1u);
}

TEST_F(BatchTest, AFailedGroupBreaksTheCommunicator) {
  start();
  keep_groups(DW_UNAVAILABLE);
  ASSERT_TRUE(batch_.on(*comm_).barrier().ok());
  EXPECT_FALSE(batch_.submit().ok());
  EXPECT_EQ(fake_.aborts, 1);
  EXPECT_EQ(error_reason(comm().barrier().status()), Reason::kGroupBroken);
  BatchRecord later;
  ASSERT_TRUE(later.on(*comm_).barrier().ok());
  EXPECT_EQ(error_reason(later.submit().status()), Reason::kGroupBroken);
}

TEST_F(BatchTest, AgainIsTriedAgain) {
  start();
  int busy = 5;
  fake_.submit_group = [&](const dw_group_item*, uint64_t, dw_error*) {
    return busy-- > 0 ? DW_AGAIN : DW_DONE;
  };
  ASSERT_TRUE(batch_.on(*comm_).barrier().ok());
  ASSERT_TRUE(batch_.on(*comm_).barrier().ok());
  const auto works = batch_.submit();
  ASSERT_TRUE(works.ok()) << works.status();
  for (const Work& work : *works) EXPECT_TRUE(work.wait().ok());
  EXPECT_EQ(busy, -1);
}

TEST_F(BatchTest, AgainForEverEndsAtTheDeadline) {
  start(absl::Milliseconds(50));
  fake_.submit_group = [](const dw_group_item*, uint64_t, dw_error*) {
    return DW_AGAIN;
  };
  ASSERT_TRUE(batch_.on(*comm_).barrier().ok());
  ASSERT_TRUE(batch_.on(*comm_).barrier().ok());
  const auto works = batch_.submit();
  ASSERT_TRUE(works.ok()) << works.status();
  // The deadline of one of them ends the group, and with it the other.
  int timed_out = 0;
  for (const Work& work : *works) {
    const absl::Status status = work.wait();
    timed_out += error_reason(status) == Reason::kTimedOut ? 1 : 0;
    EXPECT_THAT(status.message(), HasSubstr("kTimedOut"));
  }
  EXPECT_GE(timed_out, 1);
  EXPECT_EQ(fake_.aborts, 1);
  EXPECT_EQ(error_reason(comm().barrier().status()), Reason::kGroupBroken);
}

// Nothing was started, so the other group is as it was.
TEST_F(BatchTest, AClosedGroupRefusesTheBatchAndBreaksNoOther) {
  start();
  const BackendCommunicator::Ptr open = std::move(comm_);
  start();
  comm_->drain(Deadline::never());
  ASSERT_TRUE(batch_.on(*open).barrier().ok());
  ASSERT_TRUE(batch_.on(*comm_).barrier().ok());
  EXPECT_EQ(error_reason(batch_.submit().status()), Reason::kGroupClosed);
  EXPECT_EQ(fake_.aborts, 0);
  dw_op seen{};
  fake_.submit = [&](const dw_op& op, dw_work*, dw_error*) {
    seen = op;
    return DW_DONE;
  };
  ASSERT_TRUE(static_cast<Communicator&>(*open).barrier().ok());
  EXPECT_EQ(seen.seq, 1u);
}

TEST_F(BatchTest, OnWhatOnGaveIsTheSame) {
  start();
  BatchRecord other;
  Communicator& once = batch_.on(*comm_);
  EXPECT_EQ(&batch_.on(once), &once);
  ASSERT_TRUE(other.on(once).barrier().ok());
  EXPECT_EQ(other.size(), 1);
  EXPECT_EQ(batch_.size(), 0);
}

}  // namespace
}  // namespace distwrap::comm
