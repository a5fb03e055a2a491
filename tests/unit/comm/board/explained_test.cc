// The engine's reason for a failure, and the board's.
#include "board_fixture.h"
#include "unit/comm/communicator_fixture.h"

#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <utility>

namespace distwrap::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Rank 0 is the communicator, rank 1 what it sees on the board.
class ExplainedTest : public CommunicatorTest {
 protected:
  void start_on_board() {
    start(absl::Seconds(60), kCpu, std::move(ranks_[0]->group_board));
  }
  GroupBoard& other() { return *ranks_[1]->group_board; }
  void fail_with(uint16_t reason, int32_t code, const char* text) {
    fake_.submit = [=](const dw_op&, dw_work*, dw_error* error) {
      set_error(error, reason, 1, text);
      return code;
    };
  }

  std::vector<std::unique_ptr<Rank>> ranks_ = meet(3);
};

// Engines notice the end of a connection before its rank has said why.
TEST_F(ExplainedTest, WhoIsAboutToSayThatItGaveUpIsNotLost) {
  start_on_board();
  fail_with(DW_REASON_PEER_LOST, DW_UNAVAILABLE, "closed by rank 1");
  std::thread slow([&] {
    absl::SleepFor(absl::Milliseconds(5));
    EXPECT_TRUE(FirstFailure(store_, "failure")
                    .agree({.reason = Reason::kAborted,
                            .what = "the group was aborted: enough",
                            .my_rank = 1,
                            .group_size = 4})
                    .ok());
    other().break_off();
  });
  const absl::Status status = call().status();
  slow.join();
  EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("enough"));
}

// All other ranks gave up after it, and their connections ended as well.
TEST_F(ExplainedTest, TheFirstThatGaveUpIsNamed) {
  start_on_board();
  fail_with(DW_REASON_PEER_LOST, DW_UNAVAILABLE, "closed by rank 1");
  ranks_[2]->group_board->break_off();
  other().break_off();
  const absl::Status status = call().status();
  EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
  EXPECT_THAT(error_info(status)->ranks, ElementsAre(2));
}

// Nothing comes of one that says nothing, and nobody waits for it for long.
TEST_F(ExplainedTest, WhoSaysNothingIsLost) {
  start_on_board();
  fail_with(DW_REASON_PEER_LOST, DW_UNAVAILABLE, "closed by rank 1");
  const absl::Status status = call().status();
  EXPECT_EQ(error_reason(status), Reason::kPeerLost) << status;
  EXPECT_THAT(error_info(status)->ranks, ElementsAre(1));
}

// The first to offer its failure may know less than this rank.
TEST_F(ExplainedTest, CallsThatDifferAreNamedByWhoSeesThem) {
  start_on_board();
  ASSERT_TRUE(FirstFailure(store_, "failure")
                  .agree({.reason = Reason::kCallMismatch,
                          .what = "an engine found calls that differ",
                          .my_rank = 1,
                          .group_size = 4,
                          .ranks = {0}})
                  .ok());
  ranks_[1]->call(op_of(DW_OP_BARRIER, 0, 1));
  fail_with(DW_REASON_CALL_MISMATCH, DW_FAILED_PRECONDITION, "differ");
  const absl::Status status = call().status();
  EXPECT_EQ(error_reason(status), Reason::kCallMismatch) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("barrier"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("all_reduce f32 x 8"));
}

}  // namespace
}  // namespace distwrap::comm
