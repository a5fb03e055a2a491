#include "completion_words.h"
#include "manual.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

namespace distwrap::cli {
namespace {

Words names_of(const std::vector<CommandPage>& pages) {
  Words names;
  for (const CommandPage& page : top_level(pages)) names.push_back(page.name);
  return names;
}

// The words after an option: one of its choices, or anything.
std::string values_of(const CommandText& text) {
  std::string cases;
  Words others;
  for (const OptionText& option : text.options) {
    if (option.names.empty() || option.value.empty()) continue;
    const Words choices = choices_of(option);
    if (choices.empty()) {
      others.insert(others.end(), option.names.begin(), option.names.end());
      continue;
    }
    absl::StrAppend(&cases, "        ", absl::StrJoin(option.names, "|"),
                    ") _distwrap_offer '", absl::StrJoin(choices, " "),
                    "'; return ;;\n");
  }
  if (!others.empty())
    absl::StrAppend(&cases, "        ", absl::StrJoin(others, "|"),
                    ") return ;;\n");
  return cases;
}

std::string case_of(const CommandCase& command) {
  const CommandPage& page = command.page;
  Words options;
  for (const OptionText& option : page.text.options)
    options.insert(options.end(), option.names.begin(), option.names.end());
  std::string text = absl::StrCat("    ", command.pattern, ")\n");
  if (const std::string values = values_of(page.text); !values.empty())
    absl::StrAppend(&text, "      case \"$previous\" in\n", values,
                    "      esac\n");
  absl::StrAppend(&text, "      case \"$word\" in\n        -*) ",
                  "_distwrap_offer '", absl::StrJoin(options, " "),
                  "' ;;\n        *) _distwrap_offer '",
                  absl::StrJoin(command.words, " "), "' ;;\n      esac ;;\n");
  return text;
}

}  // namespace

std::string bash_completion(const std::vector<CommandPage>& pages) {
  const std::string names = absl::StrJoin(names_of(pages), " ");
  std::string script = absl::StrCat(
      "# Completion of distwrap for bash; made by `distwrap completion "
      "bash`.\n\n"
      "_distwrap_offer() {\n"
      "  local IFS=$' \\t\\n'\n"
      "  COMPREPLY=($(compgen -W \"$1\" -- \"$word\"))\n"
      "}\n\n"
      "_distwrap() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]}\n"
      "  local previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    _distwrap_offer '",
      names,
      " help --help --version'\n    return\n  fi\n"
      "  case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n"
      "    'help '*) _distwrap_offer '",
      names, "' ;;\n");
  for (const CommandCase& command : command_cases(pages))
    absl::StrAppend(&script, case_of(command));
  absl::StrAppend(&script,
                  "  esac\n}\n\n"
                  "# Nothing to offer: names of files.\n"
                  "complete -o default -F _distwrap distwrap\n");
  return script;
}

}  // namespace distwrap::cli
