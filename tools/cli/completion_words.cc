#include "completion_words.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>

namespace distwrap::cli {

Words choices_of(const OptionText& option) {
  const bool is_list =
      std::none_of(option.value.begin(), option.value.end(), [](char c) {
        return absl::ascii_isupper(static_cast<unsigned char>(c)) || c == ' ';
      });
  if (!is_list) return {};
  return absl::StrSplit(option.value, '|', absl::SkipEmpty());
}

Words positional_choices(const CommandText& text) {
  Words words;
  for (const OptionText& option : text.options) {
    if (option.positional.empty()) continue;
    const Words choices = choices_of(option);
    words.insert(words.end(), choices.begin(), choices.end());
  }
  return words;
}

Words words_below(const std::string& name,
                  const std::vector<CommandPage>& pages) {
  const std::string before = absl::StrCat(name, " ");
  Words words;
  for (const CommandPage& page : pages)
    if (absl::StartsWith(page.name, before))
      words.push_back(page.name.substr(before.size()));
  return words;
}

std::vector<CommandPage> top_level(const std::vector<CommandPage>& pages) {
  std::vector<CommandPage> top;
  for (const CommandPage& page : pages)
    if (!absl::StrContains(page.name, ' ')) top.push_back(page);
  return top;
}

std::vector<CommandCase> command_cases(const std::vector<CommandPage>& pages) {
  std::vector<CommandCase> below, top;
  for (const CommandPage& page : pages) {
    Words words = positional_choices(page.text);
    if (absl::StrContains(page.name, ' ')) {
      below.push_back({absl::StrCat("'", page.name, "'"), page, words});
      continue;
    }
    for (std::string& word : words_below(page.name, pages))
      words.push_back(std::move(word));
    top.push_back({absl::StrCat("'", page.name, " '*"), page, words});
  }
  below.insert(below.end(), top.begin(), top.end());
  return below;
}

}  // namespace distwrap::cli
