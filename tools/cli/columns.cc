#include "columns.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <algorithm>

namespace distwrap::cli {
namespace {

std::string markdown_row(const Row& cells) {
  Row safe;
  for (const std::string& cell : cells)
    safe.push_back(absl::StrReplaceAll(cell, {{"|", "\\|"}, {"\n", " "}}));
  return absl::StrCat("| ", absl::StrJoin(safe, " | "), " |\n");
}

}  // namespace

std::string columns(const std::vector<Row>& rows, absl::string_view indent) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, row[i]);
      line.append(widths[i] - row[i].size() + 2, ' ');
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string markdown_table(const Row& head, const std::vector<Row>& rows) {
  std::string text = markdown_row(head);
  absl::StrAppend(&text, markdown_row(Row(head.size(), "---")));
  for (const Row& row : rows) absl::StrAppend(&text, markdown_row(row));
  return text;
}

}  // namespace distwrap::cli
