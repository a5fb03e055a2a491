#include "bench/json.h"
#include "bench/plans/moves.h"
#include "bench/size.h"
#include "bench/text_table.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

namespace distwrap::bench {

std::string show_moves(const MovesReport& report) {
  const bool torch = absl::c_any_of(
      report.moves, [](const MoveCost& one) { return one.torch_us >= 0; });
  std::vector<std::vector<std::string>> rows;
  for (const MoveCost& one : report.moves) {
    std::vector<std::string> row = {
        absl::StrCat(one.from, " to ", one.to), format_size(one.bytes),
        format_number(one.plan_us), format_number(one.hand_us),
        absl::StrFormat("%.3f [%.3f, %.3f]", one.ratio.median, one.ratio.low,
                        one.ratio.high)};
    if (torch && one.torch_us >= 0)
      row.insert(row.end(),
                 {format_number(one.torch_us),
                  absl::StrFormat("%.4f", one.plan_us / one.torch_us)});
    else if (torch)
      row.insert(row.end(), {"", ""});
    row.push_back(one.equal ? one.by_hand : "OTHER ELEMENTS");
    rows.push_back(std::move(row));
  }
  std::vector<Span> columns = {
      {"", 1}, {"part", 1}, {"plan us", 1}, {"hand us", 1}, {"plan / hand", 1}};
  if (torch)
    columns.insert(columns.end(), {{"DTensor us", 1}, {"plan / DTensor", 1}});
  columns.push_back({"by hand", 1});
  return absl::StrCat("Redistributions of f32, ", report.ranks, " ranks over ",
                      report.backend, ", ", report.rounds, " rounds in turns",
                      torch ? "; then DTensor of PyTorch over Gloo" : "", "\n",
                      text_table(columns, rows));
}

std::string moves_json(const MovesReport& report) {
  cli::JsonArray rows;
  for (const MoveCost& one : report.moves) {
    cli::JsonObject row{{"from", one.from},
                        {"to", one.to},
                        {"bytes", one.bytes},
                        {"by_hand", one.by_hand},
                        {"plan_us", one.plan_us},
                        {"hand_us", one.hand_us},
                        {"ratio", cli::JsonObject{{"median", one.ratio.median},
                                                  {"low", one.ratio.low},
                                                  {"high", one.ratio.high}}},
                        {"equal", one.equal}};
    if (one.torch_us >= 0) row.emplace_back("torch_us", one.torch_us);
    rows.push_back(std::move(row));
  }
  return json_text(cli::JsonObject{{"schema", 1},
                                   {"tool", "distwrap bench redistribute"},
                                   {"backend", report.backend},
                                   {"ranks", report.ranks},
                                   {"rounds", report.rounds},
                                   {"moves", rows}});
}

}  // namespace distwrap::bench
