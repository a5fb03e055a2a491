#include "moe/exchange.h"

#include "unit/comm/communicator_fixture.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace distwrap::moe {
namespace {

using comm::set_error;

class ExchangeTest : public comm::CommunicatorTest {
 protected:
  CallPlace place() {
    start();
    group::GroupParts parts;
    parts.name = "g";
    parts.global_ranks = {0, 1, 2, 3};
    parts.channels.push_back(
        {.device_type = kCpu.type, .communicator = std::move(comm_)});
    group_ = std::make_shared<group::GroupState>(std::move(parts));
    return {.name = "moe_dispatch",
            .group = group_,
            .communicator = group_->default_communicator()};
  }
  void TearDown() override {
    group_.reset();
    comm::CommunicatorTest::TearDown();
  }

  std::shared_ptr<group::GroupState> group_;
};

// A receive fails before the next message starts, which only hears that the
// group is broken.
TEST_F(ExchangeTest, ReportsTheMessageThatBrokeTheGroup) {
  std::vector<dw_work*> running;
  fake_.submit = [&](const dw_op& op, dw_work* work, dw_error*) {
    EXPECT_EQ(op.kind, DW_OP_RECV) << "nothing starts in a broken group";
    running.push_back(work);
    dw_error gone{};
    set_error(&gone, DW_REASON_PEER_LOST, 2, "connection closed");
    if (running.size() == 3)
      for (dw_work* const one : running)
        fake_.complete(one, DW_UNAVAILABLE, &gone);
    return DW_OK;
  };
  const Exchange exchange(place());
  std::array<uint8_t, 16> to = {}, from = {};
  const std::array<int64_t, 4> counts = {4, 4, 4, 4}, displs = {0, 4, 8, 12};
  const absl::Status status =
      exchange
          .messages({to.data(), counts, displs}, {from.data(), counts, displs},
                    kCallTag, true)
          .status();
  EXPECT_EQ(error_reason(status), Reason::kPeerLost) << status;
  EXPECT_EQ(error_info(status)->ranks, std::vector<int>{2});
  EXPECT_EQ(error_info(status)->op, "moe_dispatch");
}

}  // namespace
}  // namespace distwrap::moe
