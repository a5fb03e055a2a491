// The `distwrap` command: finds the sub-command and hands it its arguments.
#include "base/settings.h"
#include "bench_command.h"
#include "run_command.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

namespace distwrap::cli {
namespace {

using Arguments = std::vector<std::string>;

constexpr int kUsage = 2;

struct Command {
  const char* name;
  const char* summary;
  int (*main)(const Arguments&);
};

constexpr Command kCommands[] = {
    {"bench", "measure operations between ranks", bench_command},
    {"run", "run N ranks of a program on this host", run_command},
};

std::string help() {
  std::string text =
      "Usage: distwrap COMMAND [arguments]\n"
      "       distwrap --help | --version\n\nCommands:\n";
  for (const Command& command : kCommands)
    absl::StrAppend(&text, "  ", command.name,
                    std::string(8 - std::string(command.name).size(), ' '),
                    command.summary, "\n");
  absl::StrAppend(&text,
                  "\n'distwrap COMMAND --help' tells more of a command.\n");
  return text;
}

const Command* find(const std::string& name) {
  const auto* const found = std::find_if(
      std::begin(kCommands), std::end(kCommands),
      [&](const Command& command) { return command.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

// Levenshtein distance: letters to insert, drop or change.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

int unknown(const std::string& name) {
  const auto* const nearest =
      std::min_element(std::begin(kCommands), std::end(kCommands),
                       [&](const Command& a, const Command& b) {
                         return distance(name, a.name) < distance(name, b.name);
                       });
  std::fprintf(stderr,
               "distwrap: unknown command '%s'; the nearest is '%s'. See "
               "distwrap --help\n",
               name.c_str(), nearest->name);
  return kUsage;
}

int dispatch(Arguments arguments) {
  if (arguments.empty()) {
    std::fputs(help().c_str(), stderr);
    return kUsage;
  }
  std::string name = arguments.front();
  arguments.erase(arguments.begin());
  if (name == "--version") {
    std::printf("distwrap %s\n", std::string(base::library_version()).c_str());
    return 0;
  }
  if (name == "help" && !arguments.empty()) {
    name = arguments.front();
    arguments = {"--help"};
  }
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(help().c_str(), stdout);
    return 0;
  }
  const Command* const command = find(name);
  return command == nullptr ? unknown(name) : command->main(arguments);
}

}  // namespace
}  // namespace distwrap::cli

int main(int argc, char** argv) {
  return distwrap::cli::dispatch({argv + std::min(argc, 1), argv + argc});
}
