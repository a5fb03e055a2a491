// What the completion of every shell offers, out of what commands tell of
// themselves.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_COMPLETION_WORDS_H_
#define DISTWRAP_TOOLS_CLI_COMPLETION_WORDS_H_

#include "command_line.h"
#include "manual.h"

#include <string>
#include <vector>

namespace distwrap::cli {

// A placeholder without capitals, such as "0|1", lists the values themselves.
Words choices_of(const OptionText& option);

// Values of the words that follow no option.
Words positional_choices(const CommandText& text);

// "groups" of "bench groups", for "bench".
Words words_below(const std::string& name,
                  const std::vector<CommandPage>& pages);

// Those whose names have one word, in the order given.
std::vector<CommandPage> top_level(const std::vector<CommandPage>& pages);

// What a shell matches the first two words with, those of two words first.
struct CommandCase {
  std::string pattern;  // "'bench groups'", "'bench '*"
  CommandPage page;
  Words words;  // that follow no option
};
std::vector<CommandCase> command_cases(const std::vector<CommandPage>& pages);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_COMPLETION_WORDS_H_
