#include "completion_words.h"
#include "manual.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

namespace distwrap::cli {
namespace {

std::string quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// A word and the first line of its help; words contain no colon.
std::string offer(absl::string_view word, absl::string_view help) {
  return quoted(absl::StrCat(word, ":", help.substr(0, help.find('\n'))));
}

std::string offers_of(const Words& words) {
  std::string text;
  for (const std::string& word : words)
    absl::StrAppend(&text, " ", offer(word, ""));
  return text;
}

std::string commands_of(const std::vector<CommandPage>& pages) {
  std::string text;
  for (const CommandPage& page : top_level(pages))
    absl::StrAppend(&text, " \\\n        ", offer(page.name, page.summary));
  return text;
}

std::string options_of(const CommandText& text) {
  std::string all;
  for (const OptionText& option : text.options)
    for (const std::string& name : option.names)
      absl::StrAppend(&all, " \\\n          ", offer(name, option.help));
  return all;
}

// The words after an option: one of its choices, or a file.
std::string values_of(const CommandText& text) {
  std::string cases;
  for (const OptionText& option : text.options) {
    if (option.names.empty() || option.value.empty()) continue;
    const Words choices = choices_of(option);
    absl::StrAppend(&cases, "        ", absl::StrJoin(option.names, "|"), ") ",
                    choices.empty()
                        ? "_files"
                        : absl::StrCat("_distwrap_offer", offers_of(choices)),
                    "; return ;;\n");
  }
  return cases;
}

std::string case_of(const CommandCase& command) {
  const CommandPage& page = command.page;
  const Words& words = command.words;
  const std::string values = values_of(page.text);
  return absl::StrCat(
      "    ", command.pattern, ")\n",
      values.empty()
          ? ""
          : absl::StrCat("      case $previous in\n", values, "      esac\n"),
      "      if [[ $word == -* ]]; then\n        _distwrap_offer",
      options_of(page.text), "\n      else\n        ",
      words.empty() ? "_files"
                    : absl::StrCat("_distwrap_offer", offers_of(words)),
      "\n      fi ;;\n");
}

}  // namespace

std::string zsh_completion(const std::vector<CommandPage>& pages) {
  const std::string names = commands_of(pages);
  std::string script = absl::StrCat(
      "#compdef distwrap\n"
      "# Completion of distwrap for zsh; made by `distwrap completion zsh`.\n\n"
      "# Each argument is WORD:HELP.\n"
      "_distwrap_offer() {\n"
      "  local -a offered shown\n"
      "  local pair\n"
      "  for pair in \"$@\"; do\n"
      "    offered+=(\"${pair%%:*}\")\n"
      "    if [[ -n ${pair#*:} ]]; then\n"
      "      shown+=(\"${pair%%:*}  -- ${pair#*:}\")\n"
      "    else\n"
      "      shown+=(\"${pair%%:*}\")\n"
      "    fi\n"
      "  done\n"
      "  compadd -l -d shown -a offered\n"
      "}\n\n"
      "_distwrap() {\n"
      "  local word=${words[CURRENT]} previous=${words[CURRENT-1]}\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _distwrap_offer",
      names, " \\\n        ", offer("help", "show help of a command"),
      " \\\n        ", offer("--help", "show the commands"), " \\\n        ",
      offer("--version", "show the version"),
      "\n    return\n  fi\n"
      "  case \"${words[2]} ${words[3]}\" in\n"
      "    'help '*)\n      _distwrap_offer",
      names, " ;;\n");
  for (const CommandCase& command : command_cases(pages))
    absl::StrAppend(&script, case_of(command));
  absl::StrAppend(&script,
                  "    *) _files ;;\n  esac\n}\n\n"
                  "# Found by compinit, or read by hand.\n"
                  "if [[ ${funcstack[1]} == _distwrap ]]; then\n"
                  "  _distwrap \"$@\"\nelse\n"
                  "  compdef _distwrap distwrap\nfi\n");
  return script;
}

}  // namespace distwrap::cli
