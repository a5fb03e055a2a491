#include "bench/text_table.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/string_view.h>

#include <algorithm>

namespace distwrap::bench {
namespace {

constexpr size_t kGap = 2;  // between columns

// The number of characters of a UTF-8 text.
size_t width(absl::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string blanks(size_t count) { return std::string(count, ' '); }

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

// A title over one column is right-aligned as its cells are; a title over
// several columns is centred in a line.
std::string title(const Span& span, size_t wide) {
  const size_t left = wide - width(span.text);
  if (span.columns == 1 || left < 4 || span.text.empty()) {
    return absl::StrCat(blanks(left), span.text);
  }
  const size_t before = (left - 2) / 2;
  return absl::StrCat(std::string(before, '-'), " ", span.text, " ",
                      std::string(left - 2 - before, '-'));
}

}  // namespace

std::string text_table(const std::vector<Span>& spans,
                       const std::vector<std::vector<std::string>>& lines) {
  std::vector<size_t> widths;
  for (const auto& line : lines) {
    widths.resize(std::max(widths.size(), line.size()));
    for (size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], width(line[i]));
    }
  }

  std::string text, head;
  size_t column = 0;
  for (const Span& span : spans) {
    widths.resize(std::max(widths.size(), column + span.columns));
    size_t wide = kGap * (span.columns - 1);
    for (size_t i = 0; i < span.columns; ++i) wide += widths[column + i];
    const size_t needed = width(span.text);
    if (wide < needed) {
      widths[column + span.columns - 1] += needed - wide;
      wide = needed;
    }
    absl::StrAppend(&head, column == 0 ? "" : blanks(kGap), title(span, wide));
    column += span.columns;
  }
  if (!spans.empty()) text = without_trailing_blanks(head) + "\n";

  for (const auto& cells : lines) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      absl::StrAppend(&line, i == 0 ? "" : blanks(kGap),
                      blanks(widths[i] - width(cells[i])), cells[i]);
    }
    absl::StrAppend(&text, without_trailing_blanks(line), "\n");
  }
  return text;
}

std::string format_number(double value) {
  if (value == 0) return "0";
  if (value < 0.000995) return absl::StrFormat("%.6f", value);
  if (value < 0.0995) return absl::StrFormat("%.4f", value);
  if (value < 9.995) return absl::StrFormat("%.3f", value);
  if (value < 99.95) return absl::StrFormat("%.2f", value);
  if (value < 999.5) return absl::StrFormat("%.1f", value);
  return absl::StrFormat("%.0f", value);
}

}  // namespace distwrap::bench
