#include "bench/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::bench {
namespace {

using testing::HasSubstr;

TEST(Operation, NamesGoBothWays) {
  for (Operation op : all_operations()) {
    EXPECT_EQ(*parse_operation(operation_name(op)), op);
  }
}

TEST(Operation, UnknownNamesTheNearest) {
  const auto near = [](const char* name) {
    return std::string(parse_operation(name).status().message());
  };
  EXPECT_THAT(near("allreduce"), HasSubstr("did you mean all_reduce?"));
  EXPECT_THAT(near("bcast"), HasSubstr("did you mean broadcast?"));
  EXPECT_THAT(near("sendrecv"), HasSubstr("did you mean send_recv?"));
  EXPECT_THAT(near("al"), HasSubstr("did you mean all?"));
  EXPECT_THAT(near(""), HasSubstr("Known: barrier all_reduce"));
}

TEST(Operation, BusFactors) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllReduce, 2), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllToAll, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kBroadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kSendRecv, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllReduce, 1), 0);
}

TEST(Operation, OthersOfTheProtocolAreKnown) {
  EXPECT_TRUE(measured_elsewhere("win_put"));
  EXPECT_FALSE(measured_elsewhere("all_reduce"));
  EXPECT_FALSE(measured_elsewhere("nothing"));
}

}  // namespace
}  // namespace distwrap::bench
