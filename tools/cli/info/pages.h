// Pages of the documentation that are made from tables.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_INFO_PAGES_H_
#define DISTWRAP_TOOLS_CLI_INFO_PAGES_H_

#include "json_value.h"

#include <string>
#include <vector>

namespace distwrap::cli {

// One reason of abi/reasons.def, and what to do about it.
struct ReasonText {
  std::string name, code, python, meaning, advice;
};
std::vector<ReasonText> reason_texts();

// Tables in Markdown.
std::string reasons_markdown();
std::string settings_markdown();

std::string reasons_text();
std::string settings_text();

JsonArray reasons_json();
JsonArray settings_json();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_INFO_PAGES_H_
