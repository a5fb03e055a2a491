// The conformance suite over the backend and each version of the fake NCCL.
#include "checks.h"
#include "device_copies.h"
#include "fake_nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace distwrap::nccl_test {
namespace {

using conformance::Check;

class NcclConformance : public testing::Test {
 public:
  NcclConformance(const Check& check, int version, int size)
      : check_(check), version_(version), size_(size) {}
  void TestBody() override {
    conformance::Findings findings;
    conformance::Limits limits;
    limits.sizes = {size_};
    limits.seed = 1;
    limits.largest = 4096;
    limits.threads = 2;
    limits.tags = false;
    const fakes::gpu::Collected collected;
    check_.run(on_host_memory(version_), size_, limits, findings);
    EXPECT_TRUE(findings.empty()) << findings.text();
    EXPECT_THAT(collected.rules(), testing::IsEmpty());
  }

 private:
  const Check check_;
  const int version_, size_;
};

// Checks that do not apply.
bool applies(const std::string& check) {
  // NCCL's messages have no tags.
  if (check == "Tags") return false;
  // A rank sends to itself in a set alone; streams_test.cc has a test.
  if (check == "OwnMessages") return false;
  // The device makes the messages of a communicator one after the other, so an
  // open receive delays all that come after it.
  if (check == "OpenReceives") return false;
  // A message of NCCL brings neither its type nor its count.
  if (check == "DifferingMessages") return false;
  // The backend makes no offer to say that an operation is under way.
  if (check == "UnderWay") return false;
  // An abort of NCCL ends one rank's part; the host aborts the others.
  return check != "AbortInTransfer";
}

const bool kRegistered = [] {
  for (const Check& check : conformance::all_checks()) {
    if (!applies(check.name)) continue;
    for (const int version : versions()) {
      const bool newest = version == versions().back();
      for (const int size :
           newest ? std::vector<int>{1, 2, 3, 5, 8} : std::vector<int>{2, 3}) {
        if (size > check.largest_size) continue;
        const std::string name = std::string(check.name) + "/" +
                                 std::to_string(version) + "/" +
                                 std::to_string(size);
        testing::RegisterTest("NcclConformance", name.c_str(), nullptr, nullptr,
                              __FILE__, __LINE__, [=]() -> testing::Test* {
                                return new NcclConformance(check, version,
                                                           size);
                              });
      }
    }
  }
  return true;
}();

// A call in place whose output is the second half of its input.
TEST(DeviceCopies, GiveBackWhatTheDeviceWrites) {
  const fakes::gpu::Collected collected;
  std::string memory = "abcdefgh";
  dw_op op = {};
  op.kind = DW_OP_REDUCE_SCATTER;
  op.in.dtype = op.out.dtype = {1, 8, 1};
  op.in.data = memory.data();
  op.in.count = 8;
  op.out.data = memory.data() + 4;
  op.out.count = 4;
  DeviceCopies copies(op, 0, 2, false);
  char* const out = static_cast<char*>(copies.op().out.data);
  EXPECT_EQ(out, static_cast<char*>(copies.op().in.data) + 4);
  fakes::gpu::write(out, "ABCD", 4);
  EXPECT_EQ(memory, "abcdefgh");
  EXPECT_TRUE(copies.give_back());
  EXPECT_EQ(memory, "abcdABCD");
  fakes::gpu::write(out + 4, "E", 1);
  EXPECT_FALSE(copies.give_back());
}

}  // namespace
}  // namespace distwrap::nccl_test
