// The words that the completion of every shell offers, from the commands' own
// descriptions.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_COMPLETION_WORDS_H_
#define DISTWRAP_TOOLS_CLI_COMPLETION_WORDS_H_

#include "command_line.h"
#include "manual.h"

#include <string>
#include <vector>

namespace distwrap::cli {

// The values of a placeholder without capitals, such as "0|1".
Words choices_of(const OptionText& option);

// The values of words that belong to no option.
Words positional_choices(const CommandText& text);

// The second words of a command: "groups" of "bench groups", for "bench".
Words words_below(const std::string& name,
                  const std::vector<CommandPage>& pages);

// The commands whose names have one word, in the given order.
std::vector<CommandPage> top_level(const std::vector<CommandPage>& pages);

// The pattern with which a shell matches the first two words; commands of two
// words come first.
struct CommandCase {
  std::string pattern;  // "'bench groups'", "'bench '*"
  CommandPage page;
  Words words;  // words that belong to no option
};
std::vector<CommandCase> command_cases(const std::vector<CommandPage>& pages);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_COMPLETION_WORDS_H_
