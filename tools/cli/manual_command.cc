#include "manual_command.h"

#include "base/settings.h"
#include "commands.h"
#include "manual.h"

#include <cstdio>

namespace distwrap::cli {
namespace {

constexpr CommandRow kMan = {
    "man", "Prints the manual page: distwrap man | man -l -", {}, ""};

constexpr OptionRow kCompletionOptions[] = {
    {"shell", "bash|zsh", "The shell; bash when it is not given"}};
constexpr CommandRow kCompletion = {
    "completion", "Prints a script that completes commands and options.",
    kCompletionOptions,
    "Example:\n  . <(distwrap completion bash)\nzsh, after compinit:\n"
    "  . <(distwrap completion zsh)"};

std::vector<CommandPage> pages() {
  std::vector<CommandPage> all;
  for (const Command& command : commands())
    all.push_back({command.name, command.summary, command.text()});
  return all;
}

}  // namespace

CommandText man_text() { return text_of(kMan); }

int man_command(const Words& words) {
  Typed typed;
  if (const auto code = parse(kMan, words, &typed)) return *code;
  std::fputs(manual_page(pages(), base::library_version()).c_str(), stdout);
  return 0;
}

CommandText completion_text() { return text_of(kCompletion); }

int completion_command(const Words& words) {
  Typed typed;
  if (const auto code = parse(kCompletion, words, &typed)) return *code;
  const std::string shell = typed.value("shell").value_or("bash");
  if (shell != "bash" && shell != "zsh") {
    std::fprintf(stderr,
                 "distwrap completion: there is none for '%s'; there are bash "
                 "and zsh\n",
                 shell.c_str());
    return kUsage;
  }
  std::fputs(shell == "bash" ? bash_completion(pages()).c_str()
                             : zsh_completion(pages()).c_str(),
             stdout);
  return 0;
}

}  // namespace distwrap::cli
