#include "manual.h"

#include "base/settings.h"

#include <absl/strings/match.h>
#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<CommandPage> pages() {
  CommandText text;
  text.name = "distwrap brew";
  text.about = "Brews tea:\n  distwrap brew [options] cup";
  text.options = {
      {.names = {"-s", "--strong"}, .help = "Leave it longer"},
      {.names = {"--kind"},
       .is_required = true,
       .value = "black|green",
       .group = "Leaves",
       .help = ".dot and \\ first"},
      {.names = {"--cup"}, .value = "FILE", .fallback = "mug", .help = "Into"},
      {.positional = "milk", .value = "yes|no", .help = "Milk"}};
  text.footer = "Example:\n.line\n'quote";
  return {{"brew", "make tea", text}};
}

TEST(ManualPage, ShowsCommandsOptionsAndSettings) {
  const std::string page = manual_page(pages(), "1.2.3");
  EXPECT_THAT(page, HasSubstr(".TH DISTWRAP 1 \"\" \"distwrap 1.2.3\""));
  EXPECT_THAT(page, HasSubstr("\\fB\\-s\\fR, \\fB\\-\\-strong\\fR\n"));
  EXPECT_THAT(page, HasSubstr("Default: mug"));
  EXPECT_THAT(page, HasSubstr("Required"));
  EXPECT_THAT(page, HasSubstr("\\fILeaves\\fR"));
  EXPECT_THAT(page, HasSubstr("\\fIMILK\\fR"));
  for (const base::SettingInfo& setting : base::all_settings())
    EXPECT_THAT(page, HasSubstr(std::string(setting.name)));
}

TEST(ManualPage, NoTextBecomesARequest) {
  const std::string page = manual_page(pages(), "1");
  EXPECT_THAT(page, HasSubstr("\\&.dot and \\e first"));
  EXPECT_THAT(page, HasSubstr("\n\\&.line\n\\&'quote"));
  const std::vector<std::string> known = {".TH", ".SH", ".SS", ".TP",
                                          ".PP", ".RS", ".RE", ".nf",
                                          ".fi", ".br", ".B ", ".\\\""};
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (!absl::StartsWith(line, ".")) continue;
    bool is_request = false;
    for (const std::string& request : known)
      is_request |= absl::StartsWith(line, request);
    EXPECT_TRUE(is_request) << std::string(line);
  }
}

TEST(BashCompletion, OffersCommandsOptionsAndValues) {
  const std::string script = bash_completion(pages());
  EXPECT_THAT(script, HasSubstr("'brew help --help --version'"));
  EXPECT_THAT(script, HasSubstr("'-s --strong --kind --cup'"));
  EXPECT_THAT(script, HasSubstr("--kind) _distwrap_offer 'black green'"));
  EXPECT_THAT(script, HasSubstr("--cup) return ;;"));
  EXPECT_THAT(script, HasSubstr("*) _distwrap_offer 'yes no'"));
  EXPECT_THAT(script, Not(HasSubstr("FILE")));
}

// "brew herbs" is a second word of "brew" with options of its own.
TEST(Completion, OffersTheSecondWordOfACommand) {
  std::vector<CommandPage> both = pages();
  CommandText text;
  text.name = "distwrap brew herbs";
  text.options = {{.names = {"--fresh"}, .help = "No tea bags"}};
  both.push_back({"brew herbs", "make herb tea", text});
  const std::string bash = bash_completion(both);
  EXPECT_THAT(bash, HasSubstr("'brew help --help --version'"));
  EXPECT_THAT(bash, HasSubstr("'brew herbs')"));
  EXPECT_THAT(bash, HasSubstr("_distwrap_offer '--fresh'"));
  EXPECT_THAT(bash, HasSubstr("'yes no herbs'"));
  EXPECT_LT(bash.find("'brew herbs')"), bash.find("'brew '*)"));
  const std::string zsh = zsh_completion(both);
  EXPECT_THAT(zsh, Not(HasSubstr("'brew herbs:make herb tea'")));
  EXPECT_THAT(zsh, HasSubstr("'brew herbs')"));
  EXPECT_THAT(zsh, HasSubstr("'herbs:'"));
  EXPECT_THAT(manual_page(both, "1"), HasSubstr("distwrap brew herbs"));
}

TEST(ZshCompletion, OffersCommandsOptionsAndValuesWithHelp) {
  std::vector<CommandPage> some = pages();
  some[0].text.options[0].help = "Don't leave it: longer\nor not";
  const std::string script = zsh_completion(some);
  EXPECT_THAT(script, StartsWith("#compdef distwrap\n"));
  EXPECT_THAT(script, HasSubstr("'brew:make tea'"));
  EXPECT_THAT(script, HasSubstr("'--strong:Don'\\''t leave it: longer'"));
  EXPECT_THAT(script, HasSubstr("--kind) _distwrap_offer 'black:' 'green:';"));
  EXPECT_THAT(script, HasSubstr("--cup) _files; return ;;"));
  EXPECT_THAT(script, HasSubstr("_distwrap_offer 'yes:' 'no:'"));
  EXPECT_THAT(script, Not(HasSubstr("or not")));
}

}  // namespace
}  // namespace distwrap::cli
