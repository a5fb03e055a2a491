// Rows of cells, as text for a terminal or as a Markdown table.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_COLUMNS_H_
#define DISTWRAP_TOOLS_CLI_COLUMNS_H_

#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace distwrap::cli {

using Row = std::vector<std::string>;

// Left-aligned cells with two blanks between columns; each line begins with
// `indent`.
std::string columns(const std::vector<Row>& rows, absl::string_view indent);

std::string markdown_table(const Row& head, const std::vector<Row>& rows);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_COLUMNS_H_
