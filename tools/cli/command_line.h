// Command lines: the description of a command's arguments, and the parsed
// words.
//
// The parser's own description makes --help, the manual page and the completion
// of shells. Commands with a few plain options have a table of options; other
// commands bring a parser.
// Threads: one. Ownership: tables are constant.
#ifndef DISTWRAP_TOOLS_CLI_COMMAND_LINE_H_
#define DISTWRAP_TOOLS_CLI_COMMAND_LINE_H_

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace distwrap::cli {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

using Words = std::vector<std::string>;

// An option, described for people and shells.
struct OptionText {
  Words names = {};             // "-n", "--ranks"
  std::string positional = {};  // "ops": words without an option's name
  bool is_required = false;
  std::string value = {};     // "N"; empty for a flag
  std::string fallback = {};  // the default; empty when there is none
  std::string group = {};     // heading in --help; "" for options without one
  std::string help = {};
};

struct CommandText {
  std::string name = {};  // "distwrap run"
  std::string about = {};
  std::vector<OptionText> options = {};
  std::string footer = {};
};

CommandText text_of(const CLI::App& app);

// Parses the words. Returns an exit code when the command has nothing left to
// do: 0 after --help, kUsage for an error, which has been printed on stderr
// with the nearest name for an unknown option.
std::optional<int> parse(CLI::App& app, const Words& words);

// "unknown option --jsn; did you mean --json? See distwrap info --help".
std::string unknown_option(const CLI::App& app, absl::string_view typed);

struct OptionRow {
  const char* names;  // "-q,--quiet"; "shell" for a positional word
  const char* value;  // nullptr for a flag
  const char* help;
};

struct CommandRow {
  const char* name;
  const char* about;
  absl::Span<const OptionRow> options;
  const char* footer;
};

CommandText text_of(const CommandRow& row);

// The parsed values by long name ("--json", "shell").
class Typed {
 public:
  bool has(const std::string& name) const { return values_.count(name) != 0; }
  std::optional<std::string> value(const std::string& name) const;

 private:
  friend std::optional<int> parse(const CommandRow&, const Words&, Typed*);
  std::map<std::string, std::string> values_;
};

std::optional<int> parse(const CommandRow& row, const Words& words,
                         Typed* typed);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_COMMAND_LINE_H_
