#include "bench/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::bench {
namespace {

using testing::HasSubstr;

TEST(Operation, NamesGoBothWays) {
  for (Operation op : all_operations()) {
    EXPECT_EQ(*parse_operation(operation_name(op)), op);
    EXPECT_EQ(*parse_operation(protocol_name(op)), op);
  }
}

TEST(Operation, OtherNamesForTheSame) {
  EXPECT_EQ(*parse_operation("alltoallv"), Operation::kAllToAllV);
  EXPECT_EQ(*parse_operation("sendrecv"), Operation::kRing);
  EXPECT_EQ(*parse_operation("bcast"), Operation::kBroadcast);
  EXPECT_EQ(protocol_name(Operation::kAllToAllV), "alltoallv");
  EXPECT_EQ(protocol_name(Operation::kBroadcast), "broadcast");
}

TEST(Operation, RootsCountsAndReductions) {
  EXPECT_TRUE(has_root(Operation::kGatherV));
  EXPECT_FALSE(has_root(Operation::kAllGatherV));
  EXPECT_TRUE(has_counts(Operation::kAllToAllV));
  EXPECT_FALSE(has_counts(Operation::kAllToAll));
  EXPECT_TRUE(reduces(Operation::kExscan));
  EXPECT_FALSE(reduces(Operation::kScatter));
}

TEST(Operation, UnknownNamesTheNearest) {
  const auto near = [](const char* name) {
    return std::string(parse_operation(name).status().message());
  };
  EXPECT_THAT(near("allreduce"), HasSubstr("did you mean all_reduce?"));
  EXPECT_THAT(near("broadcst"), HasSubstr("did you mean broadcast?"));
  EXPECT_THAT(near("send-recv"), HasSubstr("did you mean send_recv?"));
  EXPECT_THAT(near("al"), HasSubstr("did you mean all?"));
  EXPECT_THAT(near(""), HasSubstr("Known: barrier broadcast"));
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
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kReduce, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kRing, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kBarrier, 4), 0);
}

TEST(Operation, OthersOfTheProtocolAreKnown) {
  EXPECT_TRUE(measured_elsewhere("memcpy"));
  EXPECT_FALSE(measured_elsewhere("win_put"));
  EXPECT_FALSE(measured_elsewhere("alltoallv"));
  EXPECT_FALSE(measured_elsewhere("all_reduce"));
  EXPECT_FALSE(measured_elsewhere("nothing"));
}

}  // namespace
}  // namespace distwrap::bench
