// The functions that the guard's door refuses, and what replaces them.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_INFO_GUARDED_PAGE_H_
#define DISTWRAP_TOOLS_CLI_INFO_GUARDED_PAGE_H_

#include "json_value.h"

#include <string>

namespace distwrap::cli {

std::string guarded_text();
std::string guarded_markdown();
JsonArray guarded_json();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_INFO_GUARDED_PAGE_H_
