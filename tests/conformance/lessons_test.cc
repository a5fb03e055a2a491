// Twelve lessons from other bindings of engines, by number. Three lessons are
// missing because they concern the layers above a backend: ids of groups (6),
// typed options (9) and groups without rank 0 of the session (10).
#include "lessons.h"

#include "subjects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace distwrap::conformance {
namespace {

struct Lesson {
  const char* name;
  CheckFunction check;
  int size;
};

constexpr Lesson kLessons[] = {
    {"G01_ReductionsLeaveInputsAloneOnEveryRank", check_inputs, 4},
    {"G02_ConcurrentPairsOfAnyKindsAreExact", check_pairs, 3},
    {"G03_MessagesOfSomeRanksShiftNoCollective", check_subsets, 4},
    {"G04_TagsOfDifferentClassesNeverMeet", check_tags, 3},
    {"G05_ReduceScatterMovesItsShareOnly", check_share_moved, 4},
    {"G07_OpenWorksAddNoThreads", check_open_works, 2},
    {"G08_AbortEndsWhatBlocks", check_abort, 3},
    {"G08_ClosingWaitsForNobody", check_close, 3},
    {"G11_AveragesOfIntegersTruncate", check_averages, 3},
    {"G11_PremulSumScalesACopy", check_scaling, 3},
    {"G12_CountsAndListsWorkOrAreRefused", check_forms, 4},
};

class LessonTest : public testing::Test {
 public:
  LessonTest(Subject subject, Lesson lesson)
      : subject_(std::move(subject)), lesson_(lesson) {}

  void TestBody() override {
    const int largest =
        *std::max_element(subject_.sizes.begin(), subject_.sizes.end());
    Findings findings;
    lesson_.check(subject_.table(), std::min(lesson_.size, largest),
                  limits_of(subject_), findings);
    EXPECT_TRUE(findings.empty()) << findings.text();
  }

 private:
  const Subject subject_;
  const Lesson lesson_;
};

const bool registered = [] {
  for (const Subject& subject : subjects())
    for (const Lesson& lesson : kLessons)
      testing::RegisterTest(subject.name.c_str(), lesson.name, nullptr, nullptr,
                            __FILE__, __LINE__, [=]() -> LessonTest* {
                              return new LessonTest(subject, lesson);
                            });
  return true;
}();

TEST(Lessons, AreRegistered) { EXPECT_TRUE(registered); }

}  // namespace
}  // namespace distwrap::conformance
