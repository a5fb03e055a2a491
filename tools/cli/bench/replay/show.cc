// The output of `distwrap bench replay`, and the text that rank 0 passes to the
// command.
#include "bench/json.h"
#include "bench/replay/play.h"
#include "bench/text_table.h"
#include "comm/op_shape.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <map>

namespace distwrap::bench {
namespace {

std::string head(const ReplayScript& script, const std::string& backend) {
  size_t calls = 0;
  for (const auto& rank : script.ranks) calls += rank.size();
  std::string text = absl::StrCat(
      script.source, ": ", script.size(), " ranks, ", calls, " calls, ",
      script.groups.size(), " groups, on ", backend, "\n");
  for (const std::string& note : script.notes)
    absl::StrAppend(&text, "note: ", note, "\n");
  return text;
}

struct Amount {
  int64_t calls = 0, bytes = 0;
};

std::map<std::string, Amount> amounts_of(const ReplayScript& script) {
  std::map<std::string, Amount> amounts;
  for (const auto& rank : script.ranks)
    for (const ReplayCall& call : rank) {
      Amount& amount = amounts[comm::op_shape(call.kind).name];
      ++amount.calls;
      amount.bytes += (call.in + call.out) * dtype_size(call.dtype);
    }
  return amounts;
}

}  // namespace

std::string write_times(const ReplayTimes& times) {
  std::string text = absl::StrCat(times.total_us, "\n");
  for (const ReplayRow& row : times.rows)
    absl::StrAppend(&text, row.op, " ", row.calls, " ", row.bytes, " ",
                    row.slowest_us, " ", row.mean_us, "\n");
  return text;
}

absl::StatusOr<ReplayTimes> read_replay_times(absl::string_view text) {
  const auto bad = [] { return absl::InternalError("rank 0 wrote no times"); };
  const std::vector<absl::string_view> lines =
      absl::StrSplit(text, '\n', absl::SkipEmpty());
  ReplayTimes times;
  if (lines.empty() || !absl::SimpleAtod(lines[0], &times.total_us))
    return bad();
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = absl::StrSplit(lines[i], ' ');
    ReplayRow row;
    if (cells.size() != 5 || !absl::SimpleAtoi(cells[1], &row.calls) ||
        !absl::SimpleAtoi(cells[2], &row.bytes) ||
        !absl::SimpleAtod(cells[3], &row.slowest_us) ||
        !absl::SimpleAtod(cells[4], &row.mean_us))
      return bad();
    row.op = cells[0];
    times.rows.push_back(std::move(row));
  }
  return times;
}

std::string show_plan(const ReplayScript& script, const std::string& backend) {
  std::vector<std::vector<std::string>> lines = {
      {"operation", "calls", "bytes"}};
  for (const auto& [op, amount] : amounts_of(script))
    lines.push_back(
        {op, absl::StrCat(amount.calls), absl::StrCat(amount.bytes)});
  std::string groups;
  for (const ReplayGroup& group : script.groups)
    absl::StrAppend(&groups, "group '", group.name, "' of ", group.ranks.size(),
                    " ranks\n");
  return absl::StrCat(head(script, backend), groups, text_table({}, lines),
                      "checked; nothing was sent\n");
}

std::string show_replay(const ReplayScript& script, const ReplayTimes& times,
                        const std::string& backend, int repeat) {
  std::vector<std::vector<std::string>> lines = {
      {"operation", "calls", "bytes", "slowest rank ms", "mean us"}};
  for (const ReplayRow& row : times.rows)
    lines.push_back({row.op, absl::StrCat(row.calls), absl::StrCat(row.bytes),
                     format_number(row.slowest_us / 1e3),
                     format_number(row.mean_us)});
  return absl::StrCat(head(script, backend), text_table({}, lines), "all ",
                      repeat, " times: ", format_number(times.total_us / 1e3),
                      " ms\n");
}

std::string replay_json(const ReplayScript& script, const ReplayTimes* times,
                        const std::string& backend, int repeat) {
  cli::JsonArray notes, groups, rows;
  for (const std::string& note : script.notes) notes.emplace_back(note);
  for (const ReplayGroup& group : script.groups) {
    cli::JsonArray ranks;
    for (const int rank : group.ranks) ranks.emplace_back(rank);
    groups.emplace_back(
        cli::JsonObject{{"name", group.name}, {"ranks", std::move(ranks)}});
  }
  if (times != nullptr)
    for (const ReplayRow& row : times->rows)
      rows.emplace_back(cli::JsonObject{{"op", row.op},
                                        {"calls", row.calls},
                                        {"bytes", row.bytes},
                                        {"slowest_us", row.slowest_us},
                                        {"mean_us", row.mean_us}});
  else
    for (const auto& [op, amount] : amounts_of(script))
      rows.emplace_back(cli::JsonObject{
          {"op", op}, {"calls", amount.calls}, {"bytes", amount.bytes}});
  cli::JsonObject document = {{"schema", 1},
                              {"source", script.source},
                              {"backend", backend},
                              {"ranks", script.size()},
                              {"notes", std::move(notes)},
                              {"groups", std::move(groups)},
                              {"dry_run", times == nullptr},
                              {"operations", std::move(rows)}};
  if (times != nullptr) {
    document.emplace_back("repeat", repeat);
    document.emplace_back("total_us", times->total_us);
  }
  return json_text(document);
}

}  // namespace distwrap::bench
