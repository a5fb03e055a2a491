// Cells in columns, for a terminal.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_TEXT_TABLE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_TEXT_TABLE_H_

#include <string>
#include <vector>

namespace distwrap::bench {

// A title over some columns.
struct Span {
  std::string text = {};
  size_t columns = 1;
};

// Each column is as wide as its widest cell and right-aligned. The spans cover
// the columns from the left on. Cells may hold UTF-8.
std::string text_table(const std::vector<Span>& spans,
                       const std::vector<std::vector<std::string>>& lines);

// 0.0123, 1.234, 12.34, 12346: only significant digits.
std::string format_number(double value);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TEXT_TABLE_H_
