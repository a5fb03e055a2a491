#include "command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStderr;
using testing::internal::GetCapturedStdout;

constexpr OptionRow kOptions[] = {{"-q,--quiet", nullptr, "Say less"},
                                  {"--name", "NAME", "Of the thing"},
                                  {"shell", "bash|zsh", "The shell"}};
constexpr CommandRow kRow = {"thing", "Does a thing.", kOptions, "The end."};

std::optional<int> parse_words(const Words& words, Typed* typed,
                               std::string* said) {
  CaptureStderr();
  const std::optional<int> code = parse(kRow, words, typed);
  *said = GetCapturedStderr();
  return code;
}

TEST(CommandLine, TakesWhatTheTableNames) {
  Typed typed;
  std::string said;
  EXPECT_EQ(parse_words({"-q", "bash", "--name=x y"}, &typed, &said),
            std::nullopt);
  EXPECT_TRUE(typed.has("--quiet"));
  EXPECT_EQ(typed.value("--name"), "x y");
  EXPECT_EQ(typed.value("shell"), "bash");
  EXPECT_EQ(said, "");

  Typed nothing;
  EXPECT_EQ(parse_words({}, &nothing, &said), std::nullopt);
  EXPECT_FALSE(nothing.has("--quiet"));
  EXPECT_EQ(nothing.value("--name"), std::nullopt);
}

TEST(CommandLine, WrongWordsEndWithTwoAndTheNearestName) {
  const std::vector<std::pair<Words, std::string>> bad = {
      {{"--quite"}, "unknown option --quite; did you mean --quiet?"},
      {{"--nam=x"}, "unknown option --nam; did you mean --name?"},
      {{"-x"}, "unknown option -x"},
      {{"bash", "more"}, "'more' is too much"},
      {{"--name"}, "--name"},
      {{"--quiet=maybe"}, "maybe"},
  };
  for (const auto& [words, expected] : bad) {
    Typed typed;
    std::string said;
    EXPECT_EQ(parse_words(words, &typed, &said), kUsage) << expected;
    EXPECT_THAT(said, HasSubstr(expected));
    EXPECT_THAT(said, HasSubstr("distwrap thing"));
    EXPECT_THAT(said, HasSubstr("--help"));
  }
}

TEST(CommandLine, HelpEndsWithZero) {
  Typed typed;
  CaptureStdout();
  EXPECT_EQ(parse(kRow, {"--help"}, &typed), 0);
  const std::string help = GetCapturedStdout();
  EXPECT_THAT(help, HasSubstr("Does a thing."));
  EXPECT_THAT(help, HasSubstr("--quiet"));
  EXPECT_THAT(help, HasSubstr("The end."));
}

TEST(CommandLine, DescribesItself) {
  const CommandText text = text_of(kRow);
  EXPECT_EQ(text.name, "distwrap thing");
  EXPECT_EQ(text.footer, "The end.");
  ASSERT_EQ(text.options.size(), 4u);  // with --help
  EXPECT_THAT(text.options[1].names, ElementsAre("-q", "--quiet"));
  EXPECT_EQ(text.options[1].value, "");
  EXPECT_EQ(text.options[2].value, "NAME");
  EXPECT_EQ(text.options[3].positional, "shell");
  EXPECT_EQ(text.options[3].value, "bash|zsh");
}

}  // namespace
}  // namespace distwrap::cli
