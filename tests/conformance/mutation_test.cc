// Tests of the checks: backends that break one rule each must be caught, and
// for that rule.
#include "checks.h"
#include "lessons.h"
#include "mutants.h"
#include "perfect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <ostream>
#include <string>

namespace distwrap::conformance {

static void PrintTo(const Mutant& mutant, std::ostream* os) {
  *os << mutant.name;
}

namespace {

Limits limits_of(int size) {
  Limits limits;
  limits.sizes = {size};
  limits.largest = 1100;
  limits.complete = true;
  limits.threads = 0;
  return limits;
}

class MutationTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutationTest, IsCaught) {
  Limits limits = limits_of(GetParam().size);
  // Operations that never end are given up soon.
  limits.operation = std::chrono::milliseconds(300);
  limits.body = std::chrono::milliseconds(1500);
  dw_backend_api broken = perfect_table();
  GetParam().mutate(broken);
  Findings findings;
  GetParam().caught_by(broken, GetParam().size, limits, findings);
  EXPECT_THAT(findings.text(), testing::HasSubstr(GetParam().says));
}

// A call that moves no counted bytes has not moved its share.
TEST(LessonTest, MissingBytesAreFound) {
  Limits limits = limits_of(2);
  limits.bytes_sent = [] { return uint64_t{0}; };
  Findings findings;
  check_share_moved(perfect_table(), 2, limits, findings);
  EXPECT_THAT(findings.text(), testing::HasSubstr("its share is"));
}

// Twice the share is the traffic of a reduction to all.
TEST(LessonTest, BytesBeyondTheShareAreFound) {
  Limits limits = limits_of(2);
  limits.bytes_sent = [] {
    static std::atomic<uint64_t> sent = 0;
    return sent.fetch_add(uint64_t{1} << 19);
  };
  Findings findings;
  check_share_moved(perfect_table(), 2, limits, findings);
  EXPECT_THAT(findings.text(), testing::HasSubstr("its share is"));
}

TEST(LessonTest, FormsThatAreNotRefusedAreFound) {
  dw_backend_api broken = perfect_table();
  broken.caps = [](dw_backend*, const dw_caps_row** rows, uint64_t* n,
                   dw_error*) -> int32_t {
    *rows = nullptr;
    *n = 0;
    return DW_OK;
  };
  Findings findings;
  check_forms(broken, 2, limits_of(2), findings);
  EXPECT_THAT(findings.text(), testing::HasSubstr("neither promised"));
}

class SoundBackend : public testing::TestWithParam<int> {};

TEST_P(SoundBackend, HasNoFindings) {
  for (const Check& check : all_checks()) {
    Findings findings;
    check.run(perfect_table(), GetParam(), limits_of(GetParam()), findings);
    EXPECT_TRUE(findings.empty()) << check.name << ": " << findings.text();
  }
}

std::string name_of(const testing::TestParamInfo<Mutant>& mutant) {
  return std::string(mutant.param.name) + "_" + std::to_string(mutant.index);
}

INSTANTIATE_TEST_SUITE_P(Calls, MutationTest,
                         testing::ValuesIn(mutants_of_calls()), name_of);
INSTANTIATE_TEST_SUITE_P(Rules, MutationTest,
                         testing::ValuesIn(mutants_of_rules()), name_of);
INSTANTIATE_TEST_SUITE_P(Sizes, SoundBackend, testing::Values(1, 2, 3));

}  // namespace
}  // namespace distwrap::conformance
