#include "bench/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdlib.h>

namespace distwrap::bench {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(absl::string_view word, int ranks) {
  return std::string(parse_pattern(word, ranks).status().message());
}
std::string file_error(absl::string_view text, int ranks) {
  return std::string(parse_matrix(text, "m.txt", ranks).status().message());
}

TEST(Pattern, LinearIsWhatOtherProgramsMeasure) {
  const Pattern pattern = *parse_pattern("linear", 3);
  EXPECT_EQ(pattern.name(), "linear");
  // floor(100 (3 - d) / 6), and rank 0 gets the one left over.
  EXPECT_THAT(pattern.counts(3, 100), Each(ElementsAre(51, 33, 16)));
  EXPECT_THAT(pattern.counts(1, 7), ElementsAre(ElementsAre(7)));
  EXPECT_EQ(Pattern().counts(3, 100), pattern.counts(3, 100));
}

TEST(Pattern, UniformSharesEqually) {
  EXPECT_THAT(parse_pattern("uniform", 4)->counts(4, 400), Each(Each(100)));
  EXPECT_THAT(parse_pattern("uniform", 4)->list(4, 3), ElementsAre(3, 0, 0, 0));
}

TEST(Pattern, ZipfFallsByItsExponent) {
  EXPECT_THAT(parse_pattern("zipf", 3)->list(3, 1100),
              ElementsAre(600, 300, 200));
  EXPECT_EQ(parse_pattern("zipf", 3)->name(), "zipf:1");
  EXPECT_THAT(parse_pattern("zipf:2", 2)->list(2, 500), ElementsAre(400, 100));
  EXPECT_THAT(parse_pattern("zipf:0", 2)->list(2, 10), ElementsAre(5, 5));
}

TEST(Pattern, OneHotGivesAllToOne) {
  EXPECT_THAT(parse_pattern("one-hot", 3)->counts(3, 10),
              Each(ElementsAre(10, 0, 0)));
  EXPECT_THAT(parse_pattern("one-hot:2", 3)->counts(3, 10),
              Each(ElementsAre(0, 0, 10)));
}

TEST(Pattern, EverySenderOfANamedPatternGivesAllElements) {
  for (const char* word : {"linear", "uniform", "zipf:0.7", "one-hot:1"}) {
    const Pattern pattern = *parse_pattern(word, 5);
    EXPECT_TRUE(pattern.same_for_all()) << word;
    for (int64_t elements :
         {int64_t{0}, int64_t{1}, int64_t{4099}, int64_t{1} << 33}) {
      for (const auto& row : pattern.counts(5, elements)) {
        EXPECT_EQ(std::accumulate(row.begin(), row.end(), int64_t{0}), elements)
            << word;
        EXPECT_THAT(row, Each(testing::Ge(0))) << word;
      }
    }
  }
}

TEST(Pattern, AFileGivesProportions) {
  const auto pattern = parse_matrix(
      "# who sends what\n1 2\n\n0,\t1 # the second\r\n", "m.txt", 2);
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_FALSE(pattern->same_for_all());
  EXPECT_THAT(pattern->counts(2, 300),
              ElementsAre(ElementsAre(100, 200), ElementsAre(0, 100)));
  // The sums are those of the file when the bytes are.
  EXPECT_THAT(pattern->counts(2, 3),
              ElementsAre(ElementsAre(1, 2), ElementsAre(0, 1)));
}

TEST(Pattern, AFileIsReadFromItsPath) {
  char folder[] = "/tmp/distwrap_pattern_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/matrix";
  std::ofstream(path) << "3 1\n1 3\n";
  const auto pattern = parse_pattern(path, 2);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_EQ(pattern->name(), path);
  EXPECT_THAT(pattern->counts(2, 4)[1], ElementsAre(1, 3));
}

TEST(Pattern, ErrorsOfFilesNameLineAndColumn) {
  EXPECT_THAT(file_error("1 2\n3 x4\n", 2),
              HasSubstr("m.txt:2:3: 'x4' is not an integer"));
  EXPECT_THAT(file_error("1 -2\n3 4\n", 2), HasSubstr("m.txt:1:3: '-2'"));
  EXPECT_THAT(file_error("1 2.5\n3 4\n", 2), HasSubstr("m.txt:1:3: '2.5'"));
  EXPECT_THAT(file_error("1 99999999999999999999\n1 1", 2),
              HasSubstr("m.txt:1:3: '99999999999999999999'"));
  EXPECT_THAT(file_error("1 2 3\n3 4\n", 2),
              HasSubstr("m.txt:1:5: more numbers than the 2 ranks"));
  EXPECT_THAT(file_error("1 2\n3\n", 2),
              HasSubstr("m.txt:2:2: 1 numbers for 2 ranks"));
  EXPECT_THAT(file_error("1 2\n3 4\n\n 5 6\n", 2),
              HasSubstr("m.txt:4:2: more lines than the 2 ranks"));
  EXPECT_THAT(file_error("1 2\n", 2), HasSubstr("1 lines of numbers for 2"));
  EXPECT_THAT(file_error("", 2), HasSubstr("0 lines of numbers"));
  EXPECT_THAT(file_error("0 0\n0 0\n", 2), HasSubstr("all numbers are 0"));
}

TEST(Pattern, BadWordsAreRefused) {
  EXPECT_THAT(error_of("zipff", 2), HasSubstr("did you mean zipf?"));
  EXPECT_THAT(error_of("", 2), HasSubstr("neither a pattern nor a file"));
  EXPECT_THAT(error_of("zipf:", 2), HasSubstr("lacks its value"));
  EXPECT_THAT(error_of("zipf:x", 2), HasSubstr("'x' is not an exponent"));
  EXPECT_THAT(error_of("zipf:-1", 2), HasSubstr("not an exponent"));
  EXPECT_THAT(error_of("zipf:nan", 2), HasSubstr("not an exponent"));
  EXPECT_THAT(error_of("one-hot:2", 2), HasSubstr("no rank '2' among 2"));
  EXPECT_THAT(error_of("one-hot:-1", 2), HasSubstr("no rank '-1'"));
  EXPECT_THAT(error_of("uniform:3", 2), HasSubstr("takes no value"));
  EXPECT_THAT(error_of("/nonexistent/matrix", 2), HasSubstr("nor a file"));
}

}  // namespace
}  // namespace distwrap::bench
