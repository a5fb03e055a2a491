// The `distwrap` command: finds the sub-command and hands it its arguments.
#include "base/exceptions.h"
#include "base/nearest.h"
#include "base/settings.h"
#include "commands.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cstdio>

namespace distwrap::cli {
namespace {

std::string help() {
  std::string text =
      "Usage: distwrap COMMAND [arguments]\n"
      "       distwrap --help | --version\n\nCommands:\n";
  for (const Command& command : commands())
    absl::StrAppendFormat(&text, "  %-13s %s\n", command.name, command.summary);
  absl::StrAppend(&text,
                  "\n'distwrap COMMAND --help' tells more of a command.\n");
  return text;
}

const Command* find(const std::string& name) {
  const auto found = std::find_if(
      commands().begin(), commands().end(),
      [&](const Command& command) { return command.name == name; });
  return found == commands().end() ? nullptr : &*found;
}

int unknown(const std::string& name) {
  const bool is_option = absl::StartsWith(name, "-");
  Words known = {"help"};
  for (const Command& command : commands()) known.emplace_back(command.name);
  if (is_option) known = {"--help", "--version"};
  std::fprintf(stderr,
               "distwrap: unknown %s '%s'; the nearest is '%s'. See distwrap "
               "--help\n",
               is_option ? "option" : "command", name.c_str(),
               base::nearest(name, known).c_str());
  return kUsage;
}

// Removes the command's name from the words. For a command of two words the
// second one may be written like an option: `bench --replay`.
std::string take_name(Words* words) {
  std::string name = words->front();
  words->erase(words->begin());
  if (words->empty()) return name;
  const std::string both =
      absl::StrCat(name, " ", absl::StripPrefix(words->front(), "--"));
  if (find(both) == nullptr) return name;
  words->erase(words->begin());
  return both;
}

int dispatch(Words words) {
  if (words.empty()) {
    std::fputs(help().c_str(), stderr);
    return kUsage;
  }
  std::string name = take_name(&words);
  if (name == "--version") {
    std::printf("distwrap %s\n", std::string(base::library_version()).c_str());
    return 0;
  }
  if (name == "help" && !words.empty()) {
    name = take_name(&words);
    words = {"--help"};
  }
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(help().c_str(), stdout);
    return 0;
  }
  const Command* const command = find(name);
  return command == nullptr ? unknown(name) : command->main(words);
}

}  // namespace
}  // namespace distwrap::cli

int main(int argc, char** argv) try {
  return distwrap::cli::dispatch({argv + std::min(argc, 1), argv + argc});
} catch (...) {
  // Written without memory, which may be what is missing.
  const absl::Status failed = distwrap::base::error_of_exception("distwrap");
  std::fprintf(stderr, "%.*s\n", static_cast<int>(failed.message().size()),
               failed.message().data());
  return 1;
}
