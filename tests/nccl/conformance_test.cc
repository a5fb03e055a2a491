// The conformance suite over the backend and each version of the fake NCCL.
#include "checks.h"
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
  // The suite's messages have tags, and come in any order, which NCCL does not
  // have; streams_test.cc has its own.
  for (const char* const other :
       {"Messages", "Tags", "OwnMessages", "OpenReceives", "Subsets",
        "DifferingMessages"})
    if (check == other) return false;
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
           newest ? std::vector<int>{1, 2, 3, 5} : std::vector<int>{2}) {
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

}  // namespace
}  // namespace distwrap::nccl_test
