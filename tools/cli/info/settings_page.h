// The settings of base/settings.def, as text and as a page of the
// documentation.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_INFO_SETTINGS_PAGE_H_
#define DISTWRAP_TOOLS_CLI_INFO_SETTINGS_PAGE_H_

#include "json_value.h"

#include <string>

namespace distwrap::cli {

std::string settings_markdown();
std::string settings_text();
JsonArray settings_json();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_INFO_SETTINGS_PAGE_H_
