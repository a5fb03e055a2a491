#include "bench/moe/show_simulated.h"

#include "bench/json.h"
#include "bench/text_table.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

namespace distwrap::bench {
namespace {

std::string per_token(int64_t rows, int64_t tokens) {
  return absl::StrFormat("%.4g", tokens == 0 ? 0
                                             : static_cast<double>(rows) /
                                                   static_cast<double>(tokens));
}

double ns_per_token(const SimulatedReport& report) {
  const Simulated& result = report.phases[0].result;
  return result.tokens == 0
             ? 0
             : result.layout_ns / static_cast<double>(result.tokens);
}

}  // namespace

std::string show_simulated(const SimulatedReport& report) {
  const SimulateSpec& spec = report.spec;
  std::vector<std::vector<std::string>> rows;
  for (const SimulatedPhase& phase : report.phases)
    for (const SimulatedLevel& level : phase.result.levels) {
      const int64_t tokens = phase.result.tokens;
      rows.push_back(
          {phase.name, absl::StrCat(level.name, level.chosen ? " *" : ""),
           per_token(level.inter, tokens), per_token(level.intra, tokens),
           per_token(level.local, tokens),
           absl::StrFormat("%.4g", static_cast<double>(level.inter) *
                                       static_cast<double>(phase.row_bytes) /
                                       spec.grid.ranks() / 1e6),
           absl::StrFormat("%.4g", static_cast<double>(level.intra) *
                                       static_cast<double>(phase.row_bytes) /
                                       spec.grid.ranks() / 1e6),
           absl::StrFormat("%.4g", level.us),
           absl::StrFormat("%.4g", level.limit_us),
           absl::StrFormat("%.3f", level.us / level.limit_us),
           absl::StrFormat("%.3g", level.logical)});
    }
  const MoeLinks& links = spec.links;
  return absl::StrCat(
      spec.grid.nodes, " nodes of ", spec.grid.lanes, " ranks, ",
      report.router.tokens, " tokens of ", report.hidden, ", top ", spec.topk,
      " of ", spec.experts, " experts, skew ", report.router.skew,
      "; links: net ", links.net, ", local ", links.local, ", memory ",
      links.memory, " GB/s, hop ", links.hop_us, " us\n",
      text_table({{"", 1},
                  {"level", 1},
                  {"inter", 1},
                  {"intra", 1},
                  {"local", 1},
                  {"net MB", 1},
                  {"local MB", 1},
                  {"us", 1},
                  {"limit us", 1},
                  {"/ limit", 1},
                  {"GB/s", 1}},
                 rows),
      "\ninter, intra, local: rows of a token. MB: of a rank. "
      "*: the level that "
      "a plan takes.\n",
      absl::StrFormat("layout pass of the plans: %.3g ns a token, %.3g a pair "
                      "of token and slot\n",
                      ns_per_token(report),
                      ns_per_token(report) / static_cast<double>(spec.topk)),
      report.phases[0].result.dropped > 0
          ? absl::StrCat(report.phases[0].result.dropped,
                         " pairs were dropped\n")
          : "");
}

std::string simulated_json(const SimulatedReport& report) {
  const SimulateSpec& spec = report.spec;
  cli::JsonObject json = {{"schema", 1},
                          {"tool", "distwrap bench moe --simulate"},
                          {"nodes", spec.grid.nodes},
                          {"lanes", spec.grid.lanes},
                          {"tokens", report.router.tokens},
                          {"hidden", report.hidden},
                          {"experts", spec.experts},
                          {"topk", spec.topk},
                          {"skew", report.router.skew},
                          {"dropped", report.phases[0].result.dropped},
                          {"layout_ns_per_token", ns_per_token(report)}};
  for (const SimulatedPhase& phase : report.phases) {
    cli::JsonObject levels;
    for (const SimulatedLevel& level : phase.result.levels)
      levels.emplace_back(level.name,
                          cli::JsonObject{{"inter_rows", level.inter},
                                          {"intra_rows", level.intra},
                                          {"local_rows", level.local},
                                          {"us", level.us},
                                          {"limit_us", level.limit_us},
                                          {"logical_gbs", level.logical},
                                          {"chosen", level.chosen}});
    json.emplace_back(phase.name, levels);
  }
  return json_text(json);
}

}  // namespace distwrap::bench
