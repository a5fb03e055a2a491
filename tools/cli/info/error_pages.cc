#include "info/error_pages.h"

#include "base/error.h"
#include "columns.h"
#include "distwrap/abi/codes.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

namespace distwrap::cli {
namespace {

const char* code_name(int code) {
  switch (code) {
#define DW_CODE(value, name, enumerator, text) \
  case value:                                  \
    return #enumerator;
#include "distwrap/abi/codes.def"
  }
  return "?";
}

const char* example_of([[maybe_unused]] absl::string_view reason) {
#define DW_EXAMPLE(enumerator, line) \
  if (reason == #enumerator) return line;
#include "info/examples.def"
  return "";
}

std::vector<std::string> parts(const char* text, char separator) {
  return absl::StrSplit(text, separator, absl::SkipEmpty());
}

void add_texts(ErrorPage* page) {
#define DW_REASON_PAGE(enumerator, advice_, meaning_, causes_, look_, \
                       settings_)                                     \
  if (page->reason == #enumerator) {                                  \
    page->advice = advice_;                                           \
    page->meaning = meaning_;                                         \
    page->causes = parts(causes_, '\n');                              \
    page->look = parts(look_, '\n');                                  \
    page->settings = parts(settings_, ' ');                           \
  }
#include "base/reason_pages.def"
}

std::vector<ErrorPage> make_pages() {
  std::vector<ErrorPage> pages;
#define DW_REASON(value, name_, enumerator, code_, python_, text) \
  pages.push_back({.number = error_page(Reason::enumerator),      \
                   .reason = #enumerator,                         \
                   .name = #name_,                                \
                   .code = code_name(DW_##code_),                 \
                   .python = #python_,                            \
                   .summary = text,                               \
                   .example = example_of(#enumerator)});
#include "distwrap/abi/reasons.def"
  for (ErrorPage& page : pages) add_texts(&page);
  return pages;
}

std::string quoted(absl::string_view text) {
  return absl::StrCat("`", text, "`");
}

std::string sentence(absl::string_view text) {
  std::string out(text);
  out[0] = absl::ascii_toupper(static_cast<unsigned char>(out[0]));
  return absl::StrCat(out, ".");
}

// Breaks a text into lines for a terminal.
std::string wrapped(absl::string_view text, absl::string_view first,
                    absl::string_view next) {
  constexpr size_t kColumns = 80;
  std::string out, line(first);
  bool fresh = true;
  for (const absl::string_view word :
       absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!fresh && line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, line, "\n");
      line = std::string(next);
      fresh = true;
    }
    absl::StrAppend(&line, fresh ? "" : " ", word);
    fresh = false;
  }
  return absl::StrCat(out, line, "\n");
}

// A heading with a list; empty for an empty list.
std::string text_list(const char* heading,
                      const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items)
    absl::StrAppend(&text, wrapped(item, "  - ", "    "));
  return text.empty() ? text : absl::StrCat("\n", heading, "\n", text);
}

std::string markdown_list(const char* heading,
                          const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items)
    absl::StrAppend(&text, wrapped(item, "- ", "  "));
  return text.empty() ? text : absl::StrCat("\n## ", heading, "\n\n", text);
}

JsonArray array_of(const std::vector<std::string>& texts) {
  return JsonArray(texts.begin(), texts.end());
}

}  // namespace

const std::vector<ErrorPage>& error_pages() {
  static const auto* const kPages = new std::vector<ErrorPage>(make_pages());
  return *kPages;
}

const ErrorPage* find_error_page(absl::string_view word) {
  const std::string upper = absl::AsciiStrToUpper(word);
  absl::string_view digits = upper, name = upper;
  absl::ConsumePrefix(&digits, "DW-");
  absl::ConsumePrefix(&name, "DW_REASON_");
  int number = -1;
  const bool numbered = absl::SimpleAtoi(digits, &number);
  for (const ErrorPage& page : error_pages())
    if (page.reason == word || page.name == name ||
        (numbered && page.number == error_page(static_cast<Reason>(number))))
      return &page;
  return nullptr;
}

std::string to_text(const ErrorPage& page) {
  std::string text = absl::StrCat(
      page.number, " ", page.reason, ": ", page.summary, "\n\n",
      wrapped(page.meaning, "", ""), "\ndo\n", wrapped(page.advice, "  ", "  "),
      text_list("causes", page.causes), text_list("look at", page.look),
      text_list("settings", page.settings));
  if (!page.example.empty())
    absl::StrAppend(&text, "\nexample\n", wrapped(page.example, "  ", "  "));
  absl::StrAppend(&text, "\ncode ", page.code, ", in C DW_REASON_", page.name,
                  ", in Python ", page.python, "\n");
  return text;
}

std::string to_markdown(const ErrorPage& page) {
  std::vector<std::string> settings;
  for (const std::string& setting : page.settings)
    settings.push_back(absl::StrCat("[", quoted(setting), "](../settings.md)"));
  std::string text =
      absl::StrCat("# ", page.number, ": ", page.reason, "\n\n",
                   wrapped(sentence(page.summary), "", ""), "\n",
                   wrapped(page.meaning, "", ""), "\n## What to do\n\n",
                   wrapped(sentence(page.advice), "", ""),
                   markdown_list("Usual causes", page.causes),
                   markdown_list("What to look at", page.look),
                   markdown_list("Settings", settings));
  if (!page.example.empty())
    absl::StrAppend(&text, "\n## Example\n\n```\n",
                    wrapped(page.example, "", ""), "```\n");
  absl::StrAppend(&text, "\n## In programs\n\n",
                  markdown_table({"C++", "C", "code", "Python"},
                                 {{quoted("Reason::" + page.reason),
                                   quoted("DW_REASON_" + page.name),
                                   quoted(page.code), quoted(page.python)}}));
  return text;
}

JsonObject to_json(const ErrorPage& page) {
  return {{"page", page.number},
          {"reason", page.reason},
          {"code", page.code},
          {"python", page.python},
          {"summary", page.summary},
          {"meaning", page.meaning},
          {"advice", page.advice},
          {"causes", array_of(page.causes)},
          {"look_at", array_of(page.look)},
          {"settings", array_of(page.settings)},
          {"example", page.example}};
}

std::string error_index_text() {
  std::string text;
  for (const ErrorPage& page : error_pages())
    absl::StrAppend(&text, page.number, " ", page.reason, " (", page.code,
                    ")\n  ", page.summary, "\n  do: ", page.advice, "\n");
  return text;
}

std::string error_index_markdown() {
  std::vector<Row> rows;
  for (const ErrorPage& page : error_pages())
    rows.push_back(
        {absl::StrCat("[", page.number, "](errors/", page.number, ".md)"),
         quoted(page.reason), quoted(page.code), page.summary, page.advice});
  return markdown_table({"page", "reason", "code", "meaning", "what to do"},
                        rows);
}

JsonArray error_index_json() {
  JsonArray all;
  for (const ErrorPage& page : error_pages())
    all.push_back(JsonObject{{"page", page.number},
                             {"reason", page.reason},
                             {"code", page.code},
                             {"meaning", page.summary},
                             {"advice", page.advice}});
  return all;
}

}  // namespace distwrap::cli
