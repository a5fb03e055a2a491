// What is kept of a call whose backend says when it is under way.
#include "comm/recorder/session_recording.h"
#include "unit/comm/communicator_fixture.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace distwrap::comm {
namespace {

class CallsUnderWay : public CommunicatorTest {
 protected:
  CallsUnderWay() : CommunicatorTest(DW_BACKEND_SAYS_UNDER_WAY) {}

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
  void say_under_way() { fake_.host->under_way(fake_.host->self); }

  std::shared_ptr<SessionRecording> recording_ =
      SessionRecording::make({}, {"job", "host", 0, 4});
};

TEST_F(CallsUnderWay, AreRecordedWhenTheBackendSaysSo) {
  fake_.submit = [&](const dw_op&, dw_work*, dw_error*) {
    EXPECT_EQ(records().size(), 0u);
    say_under_way();
    EXPECT_EQ(records().size(), 1u);
    EXPECT_EQ(records().front().outcome, Recorder::kRunning);
    say_under_way();  // as often as it likes
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

TEST_F(CallsUnderWay, AreOfTheThreadThatMakesThem) {
  fake_.submit = [&](const dw_op&, dw_work*, dw_error*) {
    std::thread([&] { say_under_way(); }).join();
    EXPECT_EQ(records().size(), 0u);
    return DW_DONE;
  };
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(records().size(), 1u);
  say_under_way();  // of no call
  EXPECT_EQ(records().size(), 1u);
}

}  // namespace
}  // namespace distwrap::comm
