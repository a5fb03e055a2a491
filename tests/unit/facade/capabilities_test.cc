// The capabilities of a group equal the arguments that its calls accept.
#include "distwrap/distwrap.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace distwrap {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Capabilities : public ::testing::Test {
 protected:
  Capabilities() {
    EXPECT_TRUE(init_process_group({.rank = 0, .world_size = 1}).ok());
    const auto all = capabilities();
    EXPECT_TRUE(all.ok()) << all.status();
    all_ = all.value_or(std::vector<Capability>{});
  }
  ~Capabilities() override { EXPECT_TRUE(destroy_process_group().ok()); }

  const Capability& of(const std::string& operation) const {
    const auto found = std::find_if(
        all_.begin(), all_.end(),
        [&](const Capability& one) { return one.operation == operation; });
    EXPECT_NE(found, all_.end()) << operation;
    return found == all_.end() ? all_.front() : *found;
  }

  std::vector<Capability> all_;
};

TEST_F(Capabilities, EachReductionIsTakenAsPromised) {
  const Capability& promised = of("all_reduce");
  EXPECT_TRUE(promised.takes(DType::kF32, ReduceOp::kSum));
  EXPECT_TRUE(promised.takes(DType::kI32, ReduceOp::kBand));
  EXPECT_FALSE(promised.takes(DType::kF32, ReduceOp::kBand));
  EXPECT_FALSE(promised.takes(DType::kI32, ReduceOp::kPremulSum));
  EXPECT_FALSE(promised.takes(DType::kBool, ReduceOp::kAvg));
  alignas(16) char bytes[64] = {};
  for (int d = 0; d <= static_cast<int>(DType::kF8E5M2); ++d)
    for (int r = ReduceOp::kSum; r <= ReduceOp::kPremulSum; ++r) {
      const auto dtype = static_cast<DType>(d);
      const auto kind = static_cast<ReduceOp::Kind>(r);
      const ReduceOp op = kind == ReduceOp::kPremulSum
                              ? ReduceOp::premul_sum(2.0)
                              : ReduceOp(kind);
      const absl::Status status =
          all_reduce(TensorView(bytes, 4, dtype), op).status();
      EXPECT_EQ(status.ok(), promised.takes(dtype, kind))
          << dtype_name(dtype) << " " << reduce_op_name(kind) << ": " << status;
    }
}

TEST_F(Capabilities, WhatDoesNotReduceHasTypesOnly) {
  EXPECT_TRUE(of("all_gather").takes(DType::kBF16));
  EXPECT_THAT(of("all_gather").reductions, IsEmpty());
  EXPECT_FALSE(of("all_gather").takes(DType::kBF16, ReduceOp::kSum));
  EXPECT_THAT(of("barrier").dtypes, IsEmpty()) << "it has no buffer";
  for (const Capability& one : all_)
    for (const Capability::Reduction& reduction : one.reductions)
      for (const DType dtype : reduction.dtypes)
        EXPECT_TRUE(one.takes(dtype)) << one.operation;
}

TEST_F(Capabilities, OfADeviceThatTheGroupServes) {
  const absl::Status status = capabilities({}, Device{2, 0}).status();
  EXPECT_EQ(error_reason(status), Reason::kNoCommunicator);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("device type 'cuda'. Available: cpu"));
}

}  // namespace
}  // namespace distwrap
