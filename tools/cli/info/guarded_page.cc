#include "info/guarded_page.h"

#include "columns.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <cxxabi.h>
#include <map>
#include <memory>
#include <stdlib.h>
#include <vector>

namespace distwrap::cli {
namespace {

struct Guarded {
  std::string library, symbol, instead;
};

const std::vector<Guarded>& all() {
  static const auto* const kAll = new std::vector<Guarded>{
#define DW_GUARDED(symbol, library, instead) {#library, #symbol, #instead},
#include "guard/guarded_calls.def"
#define DW_GUARDED_NAME(name, instead) \
  {"torch.distributed", #name, "distwrap." #instead},
#include "guard/guarded_names.def"
  };
  return *kAll;
}

// "gloo::barrier" for a name of C++.
std::string plain_name(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> made(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &free);
  if (status != 0 || made == nullptr) return symbol;
  const std::string whole = made.get();
  return whole.substr(0, whole.find('('));
}

// A row for each library and replacement, in the order of the table.
std::vector<Row> rows(const char* quote) {
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> names;
  for (const Guarded& one : all()) {
    const std::pair key(one.library == "GLOO" ? "Gloo" : one.library,
                        one.instead);
    if (!names.contains(key)) order.push_back(key);
    names[key].push_back(absl::StrCat(quote, plain_name(one.symbol), quote));
  }
  std::vector<Row> made;
  for (const auto& key : order)
    made.push_back({key.first, absl::StrJoin(names[key], ", "),
                    absl::StrCat(quote, key.second, quote)});
  return made;
}

}  // namespace

std::string guarded_text() {
  std::string text;
  for (const Row& row : rows(""))
    absl::StrAppend(&text, row[0], ": ", row[2], " in place of ", row[1], "\n");
  return text;
}

std::string guarded_markdown() {
  return markdown_table({"library", "refused", "call instead"}, rows("`"));
}

JsonArray guarded_json() {
  JsonArray array;
  for (const Guarded& one : all())
    array.push_back(JsonObject{{"library", one.library},
                               {"symbol", one.symbol},
                               {"name", plain_name(one.symbol)},
                               {"instead", one.instead}});
  return array;
}

}  // namespace distwrap::cli
