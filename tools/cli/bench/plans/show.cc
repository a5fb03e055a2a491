#include "bench/json.h"
#include "bench/plans/moves.h"
#include "bench/size.h"
#include "bench/text_table.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

namespace distwrap::bench {

std::string show_moves(const MovesReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const MoveCost& one : report.moves)
    rows.push_back({absl::StrCat(one.from, " to ", one.to),
                    format_size(one.bytes), format_number(one.plan_us),
                    format_number(one.hand_us),
                    absl::StrFormat("%.3f [%.3f, %.3f]", one.ratio.median,
                                    one.ratio.low, one.ratio.high),
                    one.equal ? one.by_hand : "OTHER ELEMENTS"});
  return absl::StrCat("Redistributions of f32, ", report.ranks, " ranks over ",
                      report.backend, ", ", report.rounds, " rounds in turns\n",
                      text_table({{"", 1},
                                  {"part", 1},
                                  {"plan us", 1},
                                  {"hand us", 1},
                                  {"plan / hand", 1},
                                  {"by hand", 1}},
                                 rows));
}

std::string moves_json(const MovesReport& report) {
  cli::JsonArray rows;
  for (const MoveCost& one : report.moves)
    rows.push_back(
        cli::JsonObject{{"from", one.from},
                        {"to", one.to},
                        {"bytes", one.bytes},
                        {"by_hand", one.by_hand},
                        {"plan_us", one.plan_us},
                        {"hand_us", one.hand_us},
                        {"ratio", cli::JsonObject{{"median", one.ratio.median},
                                                  {"low", one.ratio.low},
                                                  {"high", one.ratio.high}}},
                        {"equal", one.equal}});
  return json_text(cli::JsonObject{{"schema", 1},
                                   {"tool", "distwrap bench redistribute"},
                                   {"backend", report.backend},
                                   {"ranks", report.ranks},
                                   {"rounds", report.rounds},
                                   {"moves", rows}});
}

}  // namespace distwrap::bench
