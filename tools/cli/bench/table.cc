#include "bench/table.h"

#include "bench/size.h"
#include "bench/text_table.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>

namespace distwrap::bench {
namespace {

constexpr absl::string_view kNone = "-";

std::string format_ratio(const std::optional<Ratio>& ratio) {
  if (!ratio) return std::string(kNone);
  return absl::StrFormat("%.3f [%.3f, %.3f]", ratio->median, ratio->low,
                         ratio->high);
}

std::string subtitle(const Report& report, Operation op) {
  std::string text(operation_name(op));
  absl::StrAppend(&text, ", ", report.ranks, " rank",
                  report.ranks == 1 ? "" : "s");
  if (op != Operation::kBarrier) {
    absl::StrAppend(&text, ", ", std::string(dtype_name(report.dtype)));
  }
  if (reduces(op)) {
    absl::StrAppend(&text, ", ", std::string(reduce_op_name(report.reduce)));
  }
  if (op == Operation::kBroadcast) {
    absl::StrAppend(&text, ", root ", report.root);
  }
  if (op == Operation::kSendRecv) {
    absl::StrAppend(&text, ", ping-pong, half a round trip");
  }
  return text;
}

// Titles of one contestant's columns: the first gets all, the others what they
// are compared by.
void add_titles(const std::string& name, bool first, bool barrier,
                std::vector<Span>& spans, std::vector<std::string>& line) {
  std::vector<std::string> cells = {"p50 µs"};
  if (first) {
    cells = {"min µs", "p50 µs", "p99 µs"};
    if (!barrier) cells.insert(cells.end(), {"algbw GB/s", "busbw GB/s"});
  }
  line.insert(line.end(), cells.begin(), cells.end());
  spans.push_back({name, cells.size()});
}

void add_cells(const Row& row, bool first, std::vector<std::string>& line) {
  const bool barrier = row.spec.op == Operation::kBarrier;
  const size_t columns = !first ? 1 : barrier ? 3 : 5;
  if (!row.measured) {
    for (size_t i = 0; i < columns; ++i) line.emplace_back(kNone);
    return;
  }
  if (first) line.push_back(format_number(row.min_us));
  line.push_back(format_number(row.p50_us));
  if (!first) return;
  line.push_back(format_number(row.p99_us));
  if (barrier) return;
  line.push_back(format_number(row.algbw()));
  line.push_back(format_number(row.busbw()));
}

}  // namespace

std::string heading(const Report& report) {
  std::string text = absl::StrCat(describe(report.machine), "\n");
  absl::StrAppend(&text, report.ranks, " ranks",
                  report.pinned ? ", pinned" : "", ", ", report.plan.rounds,
                  " rounds of ");
  if (report.plan.iterations > 0) {
    absl::StrAppend(&text, report.plan.iterations, " iterations");
  } else {
    absl::StrAppend(&text, report.plan.seconds * 1000, " ms");
  }
  absl::StrAppend(&text, "; an iteration takes as long as its slowest rank\n");
  if (report.contestants.size() > 1) {
    absl::StrAppend(&text, "ratios: time / time of ", report.baseline,
                    " in the same round, median [95 % interval]; below 1 is "
                    "faster\n");
  }
  if (report.machine.build_type != "Release") {
    absl::StrAppend(&text, "this is a ", report.machine.build_type,
                    " build: its figures say little\n");
  }
  return text;
}

std::string table(const Report& report, Operation op) {
  const bool barrier = op == Operation::kBarrier;
  const size_t many = report.contestants.size();
  std::vector<Span> spans = {{"", 1}};
  std::vector<std::string> titles = {"size"};
  for (size_t i = 0; i < many; ++i) {
    add_titles(report.contestants[i], i == 0, barrier, spans, titles);
  }
  for (const std::string& name : report.contestants) {
    if (name == report.baseline) continue;
    spans.push_back({name, 1});
    titles.push_back(absl::StrCat("/ ", report.baseline));
  }
  titles.emplace_back("#wrong");

  std::vector<std::vector<std::string>> lines = {titles};
  const std::vector<Row> rows = report.of(op);
  for (size_t at = 0; at + many <= rows.size(); at += many) {
    std::vector<std::string> line = {
        barrier ? std::string(kNone) : format_size(rows[at].spec.bytes)};
    int64_t wrong = 0;
    for (size_t i = 0; i < many; ++i) {
      add_cells(rows[at + i], i == 0, line);
      wrong += rows[at + i].wrong;
    }
    for (size_t i = 0; i < many; ++i) {
      if (report.contestants[i] == report.baseline) continue;
      line.push_back(format_ratio(rows[at + i].ratio));
    }
    line.push_back(report.plan.check ? absl::StrCat(wrong)
                                     : std::string(kNone));
    lines.push_back(std::move(line));
  }
  return absl::StrCat("\n", subtitle(report, op), "\n",
                      text_table(spans, lines));
}

std::string summary(const Report& report) {
  std::string text = "\n";
  std::vector<double> control;
  for (const Row& row : report.rows) {
    if (row.wrong > 0) {
      absl::StrAppend(&text, "WRONG: ", row.contestant, " ",
                      std::string(operation_name(row.spec.op)), " of ",
                      row.spec.bytes, " bytes: ", row.wrong, " elements\n");
    }
    if (row.contestant == report.control && row.ratio) {
      control.push_back(row.ratio->median);
    }
  }
  if (!control.empty()) {
    const auto [low, high] =
        std::minmax_element(control.begin(), control.end());
    const bool quiet = *low >= 0.95 && *high <= 1.05;
    absl::StrAppend(&text, "control: ", report.control, " / ", report.baseline,
                    absl::StrFormat(" lies in %.3f to %.3f, median %.3f: ",
                                    *low, *high, median(control)),
                    quiet ? "quiet\n" : "noisy, trust no smaller difference\n");
  }
  if (report.plan.check && report.wrong() == 0) {
    absl::StrAppend(&text, "all results correct\n");
  }
  return text;
}

}  // namespace distwrap::bench
