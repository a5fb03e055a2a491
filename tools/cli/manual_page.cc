#include "base/settings.h"
#include "manual.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>

namespace distwrap::cli {
namespace {

// Escapes a text for roff: hyphens can be copied, and a line that begins with a
// dot or a quote is no request.
std::string roff(absl::string_view text) {
  std::string safe = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  if (absl::StartsWith(safe, ".") || absl::StartsWith(safe, "'"))
    safe.insert(0, "\\&");
  return absl::StrReplaceAll(safe, {{"\n.", "\n\\&."}, {"\n'", "\n\\&'"}});
}

std::string bold(absl::string_view text) {
  return absl::StrCat("\\fB", roff(text), "\\fR");
}

std::string italic(absl::string_view text) {
  return absl::StrCat("\\fI", roff(text), "\\fR");
}

std::string upper(absl::string_view text) {
  return absl::AsciiStrToUpper(text);
}

void append_option(std::string* page, const OptionText& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(bold(name));
  std::string tag = absl::StrJoin(names, ", ");
  if (!option.positional.empty())
    tag = absl::StrCat(italic(upper(option.positional)),
                       tag.empty() ? "" : ", ", tag);
  if (!option.value.empty() && !option.names.empty())
    absl::StrAppend(&tag, " ", italic(option.value));
  absl::StrAppend(page, ".TP\n", tag, "\n", roff(option.help));
  if (!option.fallback.empty())
    absl::StrAppend(page, ". Default: ", roff(option.fallback));
  if (option.is_required) absl::StrAppend(page, ". Required");
  absl::StrAppend(page, ".\n");
}

void append_command(std::string* page, const CommandPage& command) {
  const std::vector<std::string> about =
      absl::StrSplit(command.text.about, '\n');
  absl::StrAppend(page, ".SS ", roff(command.text.name), "\n", roff(about[0]),
                  "\n");
  for (size_t i = 1; i < about.size(); ++i)
    absl::StrAppend(page, ".PP\n.RS 4\n",
                    bold(absl::StripAsciiWhitespace(about[i])), "\n.RE\n");
  std::string group;
  for (const OptionText& option : command.text.options) {
    if (option.group != group)
      absl::StrAppend(page, ".PP\n", italic(option.group), "\n");
    group = option.group;
    append_option(page, option);
  }
  if (!command.text.footer.empty())
    absl::StrAppend(page, ".PP\n.nf\n", roff(command.text.footer), "\n.fi\n");
}

}  // namespace

std::string manual_page(const std::vector<CommandPage>& pages,
                        absl::string_view version) {
  std::string page = absl::StrCat(
      ".\\\" Made by `distwrap man`.\n.TH DISTWRAP 1 \"\" \"distwrap ",
      roff(version), "\" \"User Commands\"\n");
  absl::StrAppend(&page,
                  ".SH NAME\ndistwrap \\- run, measure and examine jobs of "
                  "communicating ranks\n.SH SYNOPSIS\n");
  for (const CommandPage& command : pages)
    absl::StrAppend(&page, bold(command.text.name), " ...\n.br\n");
  absl::StrAppend(&page, bold("distwrap"), " ", bold("--help"), " | ",
                  bold("--version"), "\n.SH DESCRIPTION\n");
  for (const CommandPage& command : pages)
    absl::StrAppend(&page, ".TP\n", bold(command.name), "\n",
                    roff(command.summary), "\n");
  absl::StrAppend(&page,
                  ".PP\nResults go to the standard output, all else to the "
                  "standard error.\n.SH COMMANDS\n");
  for (const CommandPage& command : pages) append_command(&page, command);
  absl::StrAppend(&page, ".SH ENVIRONMENT\n");
  for (const base::SettingInfo& setting : base::all_settings()) {
    absl::StrAppend(&page, ".TP\n", bold(setting.name), "\n",
                    roff(setting.summary), ": ",
                    roff(base::expected_value(setting)));
    if (!setting.fallback.empty())
      absl::StrAppend(&page, ". Default: ", roff(setting.fallback));
    absl::StrAppend(&page, ".\n");
  }
  absl::StrAppend(&page,
                  ".SH EXIT STATUS\n.TP\n.B 0\nDone.\n.TP\n.B 1\nIt "
                  "failed.\n.TP\n.B 2\nThe command line is wrong.\n.PP\n"
                  "Commands that start ranks end with the code of the first "
                  "rank that failed.\n");
  return page;
}

}  // namespace distwrap::cli
