// The examples print the promised results, on one rank and on several.
#include "unit/cli/process.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

namespace distwrap {
namespace {

using cli::Process;
using ::testing::HasSubstr;

// The output of all ranks of an example; fails the test when a rank fails.
std::string output_of(const std::string& example, int ranks) {
  Process process({DISTWRAP, "run", "-n", absl::StrCat(ranks),
                   absl::StrCat(EXAMPLES, "/", example)},
                  {});
  EXPECT_EQ(process.wait(), 0) << process.out() << process.err();
  return process.out();
}

// The number behind `word`.
double number_after(const std::string& text, const std::string& word) {
  const size_t at = text.find(word);
  if (at == std::string::npos) return std::nan("");
  return std::atof(text.c_str() + at + word.size());
}

TEST(Example, Hello) {
  const std::string out = output_of("hello", 3);
  for (const char* line : {"[0] 0: 3", "[1] 1: 3", "[2] 2: 3"})
    EXPECT_THAT(out, HasSubstr(line));
}

// The model learns, and its result does not depend on the number of ranks
// except for the order of sums.
TEST(Example, DataParallelOnFourRanksIsAsOnOne) {
  const double alone = number_after(output_of("data_parallel", 1), "loss ");
  EXPECT_LT(alone, 0.2);
  EXPECT_NEAR(number_after(output_of("data_parallel", 4), "loss "), alone,
              1e-9);
}

TEST(Example, ExpertsOfEachRank) {
  EXPECT_THAT(output_of("experts", 3), HasSubstr("[1] 30 55\n"));
}

// Not a bit differs, and the layer learns.
TEST(Example, MoeOnFourRanksIsAsOnOne) {
  const std::string alone = output_of("moe", 1);
  EXPECT_EQ(output_of("moe", 4), alone);
  EXPECT_LT(number_after(alone, "loss "), 1);
}

// Each stage doubles and adds its number: ((b * 2 + 0) * 2 + 1) * 2 + 2.
TEST(Example, PipelineOfThreeStages) {
  const std::string out = output_of("pipeline", 3);
  for (int batch = 0; batch < 6; ++batch)
    EXPECT_THAT(out, HasSubstr(absl::StrCat("[2] batch ", batch, ": ",
                                            8 * batch + 4, "\n")));
}

// Three steps, each of which reads the previous rank's data.
TEST(Example, WindowsAreWrittenByTheRankBefore) {
  const std::string out = output_of("windows", 3);
  for (const char* line : {"[0] 66\n", "[1] 6\n", "[2] 36\n"})
    EXPECT_THAT(out, HasSubstr(line));
}

TEST(Example, MemoryOfTheBackendIsReducedAndWrittenTo) {
  const std::string out = output_of("memory", 2);
  for (const char* line : {"[0] 2\n", "[1] 2\n"})
    EXPECT_THAT(out, HasSubstr(line));
}

TEST(Example, ObjectsReachTheFirstRank) {
  EXPECT_EQ(output_of("objects", 2),
            "[0] {\"rank\": 0, \"loss\": 0.5}\n"
            "[0] {\"rank\": 1, \"loss\": 0.25}\n");
}

TEST(Example, WeightsGoToOtherRanks) {
  const std::string out = output_of("reshard", 7);
  for (const char* line : {"[4] engine 0: 0 to 7\n", "[5] engine 1: 8 to 15\n",
                           "[6] engine 2: 16 to 23\n"})
    EXPECT_THAT(out, HasSubstr(line));
}

TEST(Example, GridOfSubGroups) {
  const std::string out = output_of("grid", 4);
  for (const char* line : {"[0] world/row 0: 6", "[1] world/row 1: 6",
                           "[2] world/row 0: 6", "[3] world/row 1: 6"})
    EXPECT_THAT(out, HasSubstr(line));
}

}  // namespace
}  // namespace distwrap
