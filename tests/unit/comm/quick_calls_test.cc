// The recorded end of a call when the backend tells whether it waited.
#include "comm/recorder/session_recording.h"
#include "unit/comm/communicator_fixture.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace distwrap::comm {
namespace {

class QuickCalls : public CommunicatorTest {
 protected:
  explicit QuickCalls(uint32_t flags = DW_BACKEND_SAYS_WAITS)
      : CommunicatorTest(flags) {}

  void SetUp() override {
    ASSERT_NE(recording_, nullptr);
    start(absl::Seconds(60), kCpu, nullptr, {recording_, 0});
  }
  // Ticks between begin and end of the call made last.
  uint64_t took(std::vector<float>& values) {
    EXPECT_TRUE(
        comm_->all_reduce(view(values), view(values), ReduceOp::kSum, {}).ok());
    Recorder& recorder = recording_->recorder();
    Record last;
    for (uint64_t number = recorder.next(); number-- > 1;)
      if (recorder.read(number, &last)) break;
    EXPECT_NE(last.number, 0u);
    EXPECT_EQ(last.outcome, Recorder::kDone);
    return last.ended - last.submitted;
  }

  std::shared_ptr<SessionRecording> recording_ =
      SessionRecording::make({}, {"job", "host", 0, 4});
};

TEST_F(QuickCalls, EndAsTheyBegin) {
  EXPECT_EQ(took(x_), 0u);
  EXPECT_EQ(took(x_), 0u);
}

TEST_F(QuickCalls, OneThatWaitedEndsLater) {
  fake_.submit = [&](const dw_op& op, dw_work*, dw_error*) {
    fake_.host->waits(op.trace);
    return DW_DONE;
  };
  EXPECT_GT(took(x_), 0u);
}

TEST_F(QuickCalls, OneThatMovesMuchEndsLater) {
  std::vector<float> many(513);
  EXPECT_GT(took(many), 0u);
}

class CallsOfOthers : public QuickCalls {
 protected:
  CallsOfOthers() : QuickCalls(0) {}
};

TEST_F(CallsOfOthers, EndWhenTheyEnd) { EXPECT_GT(took(x_), 0u); }

}  // namespace
}  // namespace distwrap::comm
