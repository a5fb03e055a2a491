#include "info/pages.h"

#include "base/error.h"
#include "base/settings.h"
#include "columns.h"
#include "distwrap/abi/codes.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

namespace distwrap::cli {
namespace {

std::string advice_of(absl::string_view reason) {
#define DW_ADVICE(enumerator, advice) \
  if (reason == #enumerator) return advice;
#include "info/advice.def"
  return {};
}

const char* code_name(int code) {
  switch (code) {
#define DW_CODE(value, name, enumerator, text) \
  case value:                                  \
    return #enumerator;
#include "distwrap/abi/codes.def"
  }
  return "?";
}

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

std::vector<ReasonText> reason_texts() {
  return {
#define DW_REASON(value, name, enumerator, code, python, text) \
  {#enumerator, code_name(DW_##code), #python, text, advice_of(#enumerator)},
#include "distwrap/abi/reasons.def"
  };
}

std::string reasons_markdown() {
  std::vector<Row> rows;
  for (const ReasonText& reason : reason_texts())
    rows.push_back({quoted(reason.name), quoted(reason.code),
                    quoted(reason.python), reason.meaning, reason.advice});
  return markdown_table(
      {"reason", "code", "in Python", "meaning", "what to do"}, rows);
}

std::string settings_markdown() {
  std::vector<Row> rows = setting_rows();
  for (Row& row : rows) {
    row[0] = quoted(row[0]);
    row[3] = quoted(row[3]);
  }
  return markdown_table({"variable", "meaning", "value", "default"}, rows);
}

std::string reasons_text() {
  std::string text;
  for (const ReasonText& reason : reason_texts())
    absl::StrAppend(&text, reason.name, " (", reason.code, ")\n  ",
                    reason.meaning, "\n  do: ", reason.advice, "\n");
  return text;
}

std::string settings_text() {
  std::string text;
  for (const Row& row : setting_rows())
    absl::StrAppend(&text, row[0], "\n  ", row[1], "\n  value: ", row[2],
                    row[3].empty() ? "" : absl::StrCat("; default: ", row[3]),
                    "\n");
  return text;
}

JsonArray reasons_json() {
  JsonArray all;
  for (const ReasonText& reason : reason_texts())
    all.push_back(JsonObject{{"reason", reason.name},
                             {"code", reason.code},
                             {"meaning", reason.meaning},
                             {"advice", reason.advice}});
  return all;
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
