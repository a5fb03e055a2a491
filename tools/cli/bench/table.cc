#include "bench/table.h"

#include "bench/size.h"
#include "bench/text_table.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <set>
#include <string>

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
  if (has_root(op)) absl::StrAppend(&text, ", root ", report.root);
  if (op == Operation::kSendRecv) {
    absl::StrAppend(&text, ", ping-pong, half a round trip");
  }
  if (op == Operation::kRing) {
    absl::StrAppend(&text, ", to the next rank and from the one before");
  }
  if (op == Operation::kWinSignal)
    absl::StrAppend(&text, ", put and signal to and fro, half a round trip");
  if (op == Operation::kWinPut)
    absl::StrAppend(&text, ", to the next rank, each flushed");
  if (op == Operation::kWinPutRate)
    absl::StrAppend(&text, ", to the next rank, one of ", report.depth,
                    " between flushes");
  return text;
}

// The bytes of each rank at the largest size, for operations with counts.
std::string traffic_text(const std::vector<Row>& rows) {
  if (rows.empty() || !has_counts(rows.back().spec.op)) return "";
  const Spec& spec = rows.back().spec;
  std::string text = absl::StrCat(
      "pattern ", spec.pattern.name(),
      "; busbw without what a rank gives to itself; of ",
      format_size(spec.bytes), " each sends / receives / keeps:\n");
  const std::vector<Traffic> all = traffic_of(spec);
  for (size_t rank = 0; rank < std::min<size_t>(all.size(), 16); ++rank) {
    absl::StrAppend(&text, "  rank ", rank, ": ", format_size(all[rank].sent),
                    " / ", format_size(all[rank].received), " / ",
                    format_size(all[rank].self), "\n");
  }
  if (all.size() > 16) {
    absl::StrAppend(&text, "  and ", all.size() - 16, " more\n");
  }
  return text;
}

// Why a contestant was not measured: one line, however many sizes there are.
std::string missing_text(const std::vector<Row>& rows) {
  std::set<std::string> lines;
  for (const Row& row : rows) {
    if (row.measured || row.why_not.empty()) continue;
    lines.insert(
        absl::StrCat(row.contestant, " was not measured: ", row.why_not, "\n"));
  }
  return absl::StrJoin(lines, "");
}

// The columns of a contestant: the first one gets all columns, the others only
// those that are compared.
struct Shape {
  bool barrier = false;
  bool limit = false;
};

void add_titles(const std::string& name, bool first, Shape shape,
                std::vector<Span>& spans, std::vector<std::string>& line) {
  std::vector<std::string> cells = {"p50 µs"};
  if (first) {
    cells = {"min µs", "p50 µs", "p99 µs"};
    if (!shape.barrier) cells.insert(cells.end(), {"algbw GB/s", "busbw GB/s"});
    if (shape.limit) cells.insert(cells.end(), {"limit µs", "limit/p50"});
  }
  line.insert(line.end(), cells.begin(), cells.end());
  spans.push_back({name, cells.size()});
}

void add_cells(const Row& row, bool first, Shape shape,
               std::vector<std::string>& line) {
  const size_t columns =
      !first ? 1 : 3 + (shape.barrier ? size_t{0} : 2) + (shape.limit ? 2 : 0);
  if (!row.measured) {
    for (size_t i = 0; i < columns; ++i) line.emplace_back(kNone);
    return;
  }
  if (first) line.push_back(format_number(row.min_us));
  line.push_back(format_number(row.p50_us));
  if (!first) return;
  line.push_back(format_number(row.p99_us));
  if (!shape.barrier) {
    line.push_back(format_number(row.algbw()));
    line.push_back(format_number(row.busbw()));
  }
  if (shape.limit) {
    line.push_back(format_number(row.limit_us));
    line.push_back(absl::StrFormat("%.3g", row.reached()));
  }
}

std::string latency_text(const Latency& latency) {
  if (latency.hand_over_us == 0) {
    return "limit: a copy of the bytes by all ranks at once; one core only, so "
           "no hand-over\n";
  }
  return absl::StrFormat(
      "limit: one hand-over of a cache line (%.0f ns) and a copy of the bytes "
      "by all ranks at\nonce; limit/p50 of 1 is as fast as possible. To wake a "
      "thread takes %.1f µs\n",
      latency.hand_over_us * 1000, latency.wake_up_us);
}

}  // namespace

std::string heading(const Report& report) {
  std::string text = absl::StrCat(describe(report.machine), "\n");
  absl::StrAppend(&text, report.ranks, " ranks",
                  report.pinned ? ", pinned" : "",
                  report.cold() ? ", cold caches, rotating buffers" : "", ", ");
  const Plan& plan = report.plan;
  if (plan.least_rounds() < plan.most_rounds()) {
    absl::StrAppend(&text, plan.least_rounds(), " to ");
  }
  absl::StrAppend(&text, plan.most_rounds(), " rounds of ");
  if (plan.iterations > 0) {
    absl::StrAppend(&text, plan.iterations, " iterations");
  } else {
    absl::StrAppend(&text, format_number(plan.block_seconds() * 1000), " ms");
  }
  if (plan.least_rounds() < plan.most_rounds()) {
    absl::StrAppend(&text, ", until known to ", plan.precision * 100, " %");
  }
  absl::StrAppend(&text, "; an iteration takes as long as its slowest rank\n");
  if (report.contestants.size() > 1) {
    absl::StrAppend(&text, "ratios: time / time of ", report.baseline,
                    " in the same round, median [95 % interval]; below 1 is "
                    "faster\n");
  }
  if (report.latency) absl::StrAppend(&text, latency_text(*report.latency));
  if (report.machine.build_type != "Release") {
    absl::StrAppend(&text, "this is a ", report.machine.build_type,
                    " build: its figures say little\n");
  }
  return text;
}

std::string table(const Report& report, Operation op) {
  const bool barrier = op == Operation::kBarrier;
  const Shape shape{barrier, report.latency.has_value()};
  const size_t many = report.contestants.size();
  std::vector<Span> spans = {{"", 1}};
  std::vector<std::string> titles = {"size"};
  for (size_t i = 0; i < many; ++i) {
    add_titles(report.contestants[i], i == 0, shape, spans, titles);
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
      add_cells(rows[at + i], i == 0, shape, line);
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
  return absl::StrCat("\n", subtitle(report, op), "\n", traffic_text(rows),
                      text_table(spans, lines), missing_text(rows));
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
  const Noise& noise = report.noise;
  if (noise.steal_percent >= 1 || noise.involuntary_switches > 0) {
    absl::StrAppendFormat(&text,
                          "disturbed: rank 0 was taken off its core %d times; "
                          "%.1f %% of the machine's "
                          "time went to others\n",
                          noise.involuntary_switches, noise.steal_percent);
  }
  int64_t rounds = 0, repeated = 0, slowed = 0;
  for (const Row& row : report.rows) {
    rounds += static_cast<int64_t>(row.round_p50_us.size());
    repeated += row.repeated;
    slowed += row.disturbed;
  }
  if (repeated > 0) {
    absl::StrAppendFormat(&text,
                          "disturbed: in %d of %d blocks a core was slower "
                          "than at its best (other guests, its clock); %d "
                          "were measured again, %d of the rest count as they "
                          "are\n",
                          repeated + slowed, rounds + repeated, repeated,
                          slowed);
  }
  if (report.plan.check && report.wrong() == 0) {
    absl::StrAppend(&text, "all results correct\n");
  }
  return text;
}

}  // namespace distwrap::bench
