#include "bench/ascii_plot.h"

#include "bench/axis.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace distwrap::bench {
namespace {

constexpr size_t kColumns = 64;
constexpr size_t kLines = 16;
constexpr size_t kLabel = 8;  // room left of the frame

size_t cell(double place, size_t cells) {
  const double at = std::round(place * static_cast<double>(cells - 1));
  return std::min(cells - 1, static_cast<size_t>(std::max(0.0, at)));
}

char letter(size_t contestant) {
  return static_cast<char>('a' + contestant % 26);
}

bool drawable(const Row& row) {
  return row.measured && row.spec.bytes > 0 && row.p50_us > 0;
}

std::string picture(const Report& report, const std::vector<Row>& rows) {
  const auto by_bytes = [](const Row& a, const Row& b) {
    return a.spec.bytes < b.spec.bytes;
  };
  const auto by_time = [](const Row& a, const Row& b) {
    return a.p50_us < b.p50_us;
  };
  const auto [small, large] =
      std::minmax_element(rows.begin(), rows.end(), by_bytes);
  const auto [low, high] =
      std::minmax_element(rows.begin(), rows.end(), by_time);
  const LogAxis x = byte_axis(static_cast<double>(small->spec.bytes),
                              static_cast<double>(large->spec.bytes));
  const LogAxis y = time_axis(low->p50_us, high->p50_us);

  std::vector<std::string> lines(kLines, std::string(kColumns, ' '));
  for (const Row& row : rows) {
    const auto contestant =
        std::find(report.contestants.begin(), report.contestants.end(),
                  row.contestant) -
        report.contestants.begin();
    char& at = lines[kLines - 1 - cell(y.place(row.p50_us), kLines)][cell(
        x.place(static_cast<double>(row.spec.bytes)), kColumns)];
    at = at == ' ' ? letter(static_cast<size_t>(contestant)) : '*';
  }

  std::vector<std::string> labels(kLines);
  for (const Tick& tick : y.ticks()) {
    std::string& label = labels[kLines - 1 - cell(y.place(tick.value), kLines)];
    if (!tick.label.empty()) label = tick.label;
  }
  std::string text;
  for (size_t i = 0; i < kLines; ++i) {
    const std::string label = labels[i].substr(0, kLabel);
    absl::StrAppend(&text, std::string(kLabel - label.size(), ' '), label,
                    labels[i].empty() ? " |" : " +", lines[i]);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  absl::StrAppend(&text, std::string(kLabel + 1, ' '), "+",
                  std::string(kColumns, '-'), "\n");
  std::string below(kColumns + kLabel, ' ');
  for (const Tick& tick : x.ticks()) {
    const size_t at = cell(x.place(tick.value), kColumns);
    // A label that would touch the one before it is left out.
    if (tick.label.empty() ||
        (at > 0 && below.find_last_not_of(' ') != std::string::npos &&
         below.find_last_not_of(' ') + 2 > at)) {
      continue;
    }
    below.replace(at, tick.label.size(), tick.label);
  }
  below.erase(below.find_last_not_of(' ') + 1);
  absl::StrAppend(&text, std::string(kLabel + 2, ' '), below, "\n");
  return text;
}

}  // namespace

std::string ascii_plot(const Report& report) {
  std::string text;
  for (Operation op : report.ops()) {
    std::vector<Row> rows = report.of(op);
    rows.erase(std::remove_if(rows.begin(), rows.end(),
                              [](const Row& row) { return !drawable(row); }),
               rows.end());
    if (rows.empty()) continue;
    absl::StrAppend(&text, "\n", operation_name(op), ", p50 over bytes:");
    for (size_t i = 0; i < report.contestants.size(); ++i) {
      absl::StrAppend(&text, " ", std::string(1, letter(i)), " ",
                      report.contestants[i]);
    }
    absl::StrAppend(&text, "\n", picture(report, rows));
  }
  return text;
}

}  // namespace distwrap::bench
