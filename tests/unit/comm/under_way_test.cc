// The records of a call whose backend reports that it is in flight.
#include "comm/recorder/session_recording.h"
#include "unit/comm/communicator_fixture.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace distwrap::comm {
namespace {

class CallsUnderWay : public CommunicatorTest {
 protected:
  explicit CallsUnderWay(uint32_t flags = DW_BACKEND_SAYS_UNDER_WAY)
      : CommunicatorTest(flags) {}

  void SetUp() override {
    ASSERT_NE(recording_, nullptr);
    start(absl::Seconds(60), kCpu, nullptr, {recording_, 0});
  }
  std::vector<Record> records() {
    std::vector<Record> all;
    Recorder& recorder = recording_->recorder();
    for (uint64_t number = 1; number < recorder.next(); ++number)
      if (Record record; recorder.read(number, &record)) all.push_back(record);
    return all;
  }
  absl::Status call() {
    return comm_->all_reduce(view(x_), view(x_), ReduceOp::kSum, {}).status();
  }
  void say_under_way(const dw_op& op) {
    ASSERT_NE(op.trace, nullptr);
    fake_.host->under_way(op.trace);
  }

  std::shared_ptr<SessionRecording> recording_ =
      SessionRecording::make({}, {"job", "host", 0, 4});
};

TEST_F(CallsUnderWay, AreRecordedWhenTheBackendSaysSo) {
  fake_.submit = [&](const dw_op& op, dw_work*, dw_error*) {
    EXPECT_EQ(records().size(), 0u);
    say_under_way(op);
    EXPECT_EQ(records().size(), 1u);
    EXPECT_EQ(records().front().outcome, Recorder::kRunning);
    say_under_way(op);  // as often as it likes
    EXPECT_EQ(records().size(), 1u);
    return DW_DONE;
  };
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(records().front().outcome, Recorder::kDone);
}

TEST_F(CallsUnderWay, AreRecordedAtTheirEndWhenItSaysNothing) {
  fake_.submit = [&](const dw_op&, dw_work*, dw_error*) {
    EXPECT_EQ(records().size(), 0u);
    return DW_DONE;
  };
  EXPECT_TRUE(call().ok());
  ASSERT_EQ(records().size(), 1u);
  EXPECT_EQ(records().front().outcome, Recorder::kDone);
}

TEST_F(CallsUnderWay, AreRecordedWhenTheyFail) {
  fake_.submit = [&](const dw_op&, dw_work*, dw_error*) {
    return DW_INVALID_ARGUMENT;
  };
  EXPECT_FALSE(call().ok());
  ASSERT_EQ(records().size(), 1u);
  EXPECT_GE(records().front().outcome, Recorder::kFailed);
}

TEST_F(CallsUnderWay, AsynchronousOnesHaveNoTrace) {
  fake_.submit = [&](const dw_op& op, dw_work*, dw_error*) {
    EXPECT_EQ(op.trace, nullptr);
    EXPECT_EQ(records().size(), 1u);
    return DW_DONE;
  };
  EXPECT_TRUE(
      comm_->all_reduce(view(x_), view(x_), ReduceOp::kSum, {.async = true})
          .ok());
}

class SilentCalls : public CallsUnderWay {
 protected:
  SilentCalls() : CallsUnderWay(0) {}
};

TEST_F(SilentCalls, OfOtherBackendsHaveNoTrace) {
  fake_.submit = [&](const dw_op& op, dw_work*, dw_error*) {
    EXPECT_EQ(op.trace, nullptr);
    EXPECT_EQ(records().size(), 1u);
    return DW_DONE;
  };
  EXPECT_TRUE(call().ok());
}

}  // namespace
}  // namespace distwrap::comm
