#include "info/settings_page.h"

#include "base/settings.h"
#include "columns.h"

#include <absl/strings/str_cat.h>

namespace distwrap::cli {
namespace {

std::string quoted(absl::string_view text) {
  return text.empty() ? "" : absl::StrCat("`", text, "`");
}

std::vector<Row> setting_rows() {
  std::vector<Row> rows;
  for (const base::SettingInfo& setting : base::all_settings())
    rows.push_back({std::string(setting.name), std::string(setting.summary),
                    base::expected_value(setting),
                    std::string(setting.fallback)});
  return rows;
}

}  // namespace

std::string settings_markdown() {
  std::vector<Row> rows = setting_rows();
  for (Row& row : rows) {
    row[0] = quoted(row[0]);
    row[3] = quoted(row[3]);
  }
  return markdown_table({"variable", "meaning", "value", "default"}, rows);
}

std::string settings_text() {
  std::string text;
  for (const Row& row : setting_rows())
    absl::StrAppend(&text, row[0], "\n  ", row[1], "\n  value: ", row[2],
                    row[3].empty() ? "" : absl::StrCat("; default: ", row[3]),
                    "\n");
  return text;
}

JsonArray settings_json() {
  JsonArray all;
  for (const Row& row : setting_rows())
    all.push_back(JsonObject{{"name", row[0]},
                             {"meaning", row[1]},
                             {"value", row[2]},
                             {"default", row[3]}});
  return all;
}

}  // namespace distwrap::cli
