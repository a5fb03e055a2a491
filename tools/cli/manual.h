// The manual page and the completion of shells, made from the commands' own
// descriptions and from the table of settings.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_MANUAL_H_
#define DISTWRAP_TOOLS_CLI_MANUAL_H_

#include "command_line.h"

#include <string>
#include <vector>

namespace distwrap::cli {

struct CommandPage {
  std::string name;     // "run"; "bench groups" is a second word of bench
  std::string summary;  // one line
  CommandText text;
};

// The page distwrap(1) for man(1).
std::string manual_page(const std::vector<CommandPage>& pages,
                        absl::string_view version);

// A script for bash(1) that completes commands, options and the values of some
// options; file names elsewhere.
std::string bash_completion(const std::vector<CommandPage>& pages);

// A script for zsh(1), with a line of help beside each word.
std::string zsh_completion(const std::vector<CommandPage>& pages);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_MANUAL_H_
