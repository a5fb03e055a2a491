// Every call over every backend, and buffers of more than 2^31 bytes: minutes.
#include "call.h"
#include "large.h"
#include "promises.h"
#include "sample.h"
#include "subjects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>

namespace distwrap::conformance {
namespace {

// The calls of one team; a failure does not affect the next team.
constexpr size_t kPortion = 2000;

Limits long_limits(const Subject& subject) {
  Limits limits = limits_of(subject);
  limits.operation = std::chrono::minutes(3);
  limits.body = std::chrono::minutes(20);
  return limits;
}

class FullMatrix : public testing::Test {
 public:
  FullMatrix(Subject subject, int size)
      : subject_(std::move(subject)), size_(size) {}

  void TestBody() override {
    const Limits limits = long_limits(subject_);
    Findings findings;
    std::vector<Case> cases;
    const auto run = [&](const std::function<void(Member&)>& body) {
      run_team(subject_.table(), size_, limits, findings, body);
    };
    run([&](Member& member) {
      if (member.rank == 0) cases = all_cases(promises_of(member), size_);
    });
    std::cout << cases.size() << " calls" << std::endl;
    for (size_t begin = 0; begin < cases.size(); begin += kPortion)
      run([&](Member& member) {
        const size_t end = std::min(cases.size(), begin + kPortion);
        for (size_t i = begin; i < end; ++i) make_call(member, cases[i]);
      });
    EXPECT_TRUE(findings.empty()) << findings.text();
  }

 private:
  const Subject subject_;
  const int size_;
};

class LargeBuffers : public testing::Test {
 public:
  LargeBuffers(Subject subject, CheckFunction check)
      : subject_(std::move(subject)), check_(check) {}

  void TestBody() override {
    if (!has_memory_for_large())
      GTEST_SKIP() << "less than 11 GiB of memory are free";
    Findings findings;
    check_(subject_.table(), 2, long_limits(subject_), findings);
    EXPECT_TRUE(findings.empty()) << findings.text();
  }

 private:
  const Subject subject_;
  const CheckFunction check_;
};

void register_large(const Subject& subject, const char* name,
                    CheckFunction check) {
  testing::RegisterTest(
      "LargeBuffers", (subject.name + "_" + name).c_str(), nullptr, nullptr,
      __FILE__, __LINE__,
      [=]() -> LargeBuffers* { return new LargeBuffers(subject, check); });
}

const bool registered = [] {
  for (const Subject& subject : subjects()) {
    for (const int size : subject.sizes)
      testing::RegisterTest(
          subject.name.c_str(), ("Ranks" + std::to_string(size)).c_str(),
          nullptr, nullptr, __FILE__, __LINE__,
          [=]() -> FullMatrix* { return new FullMatrix(subject, size); });
    if (!subject.moves_large) continue;
    register_large(subject, "LargeBroadcast", check_large_broadcast);
    register_large(subject, "LargeAllReduce", check_large_all_reduce);
    register_large(subject, "LargeAllGather", check_large_all_gather);
  }
  return true;
}();

TEST(FullMatrixSubjects, AreRegistered) { EXPECT_TRUE(registered); }

}  // namespace
}  // namespace distwrap::conformance
