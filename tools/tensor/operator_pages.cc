#include "tensor/operator_pages.h"

#include "distwrap/registration.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace distwrap::tools {
namespace {

struct Page {
  std::string types = "-", torch = "-", gives = "";
};

const std::map<std::string, Page, std::less<>>& pages() {
  static const std::map<std::string, Page, std::less<>> all = {
#define DW_OPERATOR_PAGE(name, types, torch, gives) \
  {name, {types, torch, gives}},
#include "tensor/operator_pages.def"
  };
  return all;
}

struct Row {
  std::string name, schema = {}, kernels = {};
  Page page = {};
};

// The devices whose dense tensors have a kernel, and how gradients come.
std::string kernels_of(const dispatch::OpHandle& op) {
  std::vector<std::string> found;
  bool composite = false;
  for (const absl::string_view line : absl::StrSplit(op.dump(), '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 2 || !absl::StartsWith(words[0], "dense/")) continue;
    if (words[1] == "composite") {
      composite = true;
    } else {
      found.emplace_back(words[0].substr(6));
    }
  }
  if (composite) return "made of others";
  return found.empty() ? "none" : absl::StrJoin(found, ", ");
}

std::string json_string(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::vector<Row> rows_of(const std::set<std::string>& hidden) {
  std::vector<Row> rows;
  for (const dispatch::OpHandle& op : dispatch::operators()) {
    if (hidden.contains(op.name())) continue;
    Row row{.name = op.name(), .kernels = kernels_of(op)};
    if (const auto schema = op.schema(); schema.ok()) {
      row.schema = (*schema)->text();
    }
    if (const auto page = pages().find(row.name); page != pages().end()) {
      row.page = page->second;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::string operator_pages(Form form, const std::set<std::string>& hidden) {
  const std::vector<Row> rows = rows_of(hidden);
  std::string text;
  if (form == Form::kJson) {
    const auto one = [](std::string* out, const Row& row) {
      absl::StrAppend(out, "  {\"name\": ", json_string(row.name),
                      ", \"schema\": ", json_string(row.schema),
                      ", \"types\": ", json_string(row.page.types),
                      ", \"torch\": ", json_string(row.page.torch),
                      ", \"kernels\": ", json_string(row.kernels), "}");
    };
    return absl::StrCat(
        "{\"schema\": 1, \"tool\": \"distwrap info\", "
        "\"operators\": [\n",
        absl::StrJoin(rows, ",\n", one), "\n]}\n");
  }
  if (form == Form::kMarkdown) {
    text =
        "| operator | gives | types | kernels | PyTorch |\n"
        "| --- | --- | --- | --- | --- |\n";
    for (const Row& row : rows) {
      std::string schema = row.schema;
      // A bar would end the column.
      schema = absl::StrReplaceAll(schema, {{"|", "\\|"}});
      absl::StrAppend(&text, "| `", schema, "` | ", row.page.gives, " | ",
                      row.page.types, " | ", row.kernels, " | ", row.page.torch,
                      " |\n");
    }
    return text;
  }
  for (const Row& row : rows) {
    absl::StrAppend(&text, row.schema, "\n    ");
    if (!row.page.gives.empty()) {
      absl::StrAppend(&text, row.page.gives, "; ", row.page.types, "; ");
    }
    absl::StrAppend(&text, "kernels: ", row.kernels, "\n");
  }
  absl::StrAppendFormat(&text, "%d operators\n", rows.size());
  return text;
}

}  // namespace distwrap::tools
