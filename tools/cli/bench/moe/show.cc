#include "bench/json.h"
#include "bench/moe/layer.h"
#include "bench/size.h"
#include "bench/text_table.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

namespace distwrap::bench {

namespace {

double us_of(const MoeCost& cost, absl::string_view name) {
  for (const MoePhase& phase : cost.phases)
    if (phase.name == name) return phase.us;
  return 0;
}

// A plan moves no rows.
std::string to_limit(const MoeCost& cost, const MoePhase& phase) {
  return phase.name == "plan" || cost.limit_us == 0
             ? ""
             : absl::StrFormat("%.3f", phase.us / cost.limit_us);
}

std::string others_table(const MoeReport& report) {
  if (report.others.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const OtherCost& other : report.others)
    for (const bool back : {false, true}) {
      const double theirs = back ? other.combine_us : other.dispatch_us;
      const double ours = us_of(report.cost, back ? "combine" : "dispatch");
      rows.push_back({other.name, back ? "combine" : "dispatch",
                      format_number(theirs),
                      absl::StrFormat("%.3f", ours / theirs)});
    }
  return absl::StrCat(
      "\n",
      text_table({{"", 1}, {"", 1}, {"us", 1}, {"ours / theirs", 1}}, rows));
}

}  // namespace

std::string show_moe(const MoeReport& report) {
  const MoeLayerSpec& spec = report.spec;
  const MoeCost& cost = report.cost;
  std::vector<std::vector<std::string>> rows;
  for (const MoePhase& phase : cost.phases)
    rows.push_back({phase.name, format_number(phase.us),
                    format_number(phase.hand_us),
                    absl::StrFormat("%.3f [%.3f, %.3f]", phase.ratio.median,
                                    phase.ratio.low, phase.ratio.high),
                    to_limit(cost, phase)});
  return absl::StrCat(
      spec.router.tokens, " tokens of ", spec.hidden, " ",
      dtype_name(spec.dtype), ", top ", spec.router.topk, " of ",
      spec.router.experts, " experts, skew ", spec.router.skew, ", ",
      spec.layout, ", ", spec.shared_memory ? "shared memory, " : "",
      report.ranks, " ranks over ", report.backend, ", ", report.rounds,
      " rounds in turns\n",
      text_table({{"", 1},
                  {"us", 1},
                  {"by hand us", 1},
                  {"/ by hand", 1},
                  {"/ limit", 1}},
                 rows),
      "\nlevel ", cost.dedup, ": ", cost.sent_rows, " rows sent, by hand ",
      cost.hand_rows, "; ", cost.rows, " rows received, ",
      format_size(cost.bytes), ", whose memcpy takes ",
      format_number(cost.memcpy_us), " us; the limit is ",
      format_number(cost.limit_us), " us\n", "sent to other nodes ",
      format_size(cost.bytes_inter), ", inside the node ",
      format_size(cost.bytes_intra), ", to itself ",
      format_size(cost.bytes_local), "; ", cost.dropped, " pairs dropped\n",
      cost.equal ? "" : "THE SUMS DIFFER\n", others_table(report));
}

std::string moe_json(const MoeReport& report) {
  const MoeLayerSpec& spec = report.spec;
  const MoeCost& cost = report.cost;
  cli::JsonObject json = {{"schema", 1},
                          {"tool", "distwrap bench moe"},
                          {"backend", report.backend},
                          {"ranks", report.ranks},
                          {"rounds", report.rounds},
                          {"tokens", spec.router.tokens},
                          {"hidden", spec.hidden},
                          {"dtype", std::string(dtype_name(spec.dtype))},
                          {"experts", spec.router.experts},
                          {"topk", spec.router.topk},
                          {"skew", spec.router.skew},
                          {"layout", spec.layout},
                          {"memory", spec.shared_memory ? "shared" : "private"},
                          {"level", cost.dedup},
                          {"rows", cost.rows},
                          {"sent_rows", cost.sent_rows},
                          {"hand_rows", cost.hand_rows},
                          {"bytes", cost.bytes},
                          {"bytes_inter", cost.bytes_inter},
                          {"bytes_intra", cost.bytes_intra},
                          {"bytes_local", cost.bytes_local},
                          {"dropped", cost.dropped},
                          {"memcpy_us", cost.memcpy_us},
                          {"limit_us", cost.limit_us},
                          {"equal", cost.equal}};
  for (const MoePhase& phase : cost.phases)
    json.emplace_back(
        phase.name,
        cli::JsonObject{
            {"us", phase.us},
            {"by_hand_us", phase.hand_us},
            {"ratio", cli::JsonObject{{"median", phase.ratio.median},
                                      {"low", phase.ratio.low},
                                      {"high", phase.ratio.high}}}});
  cli::JsonArray others;
  for (const OtherCost& other : report.others)
    others.push_back(cli::JsonObject{{"name", other.name},
                                     {"dispatch_us", other.dispatch_us},
                                     {"combine_us", other.combine_us}});
  if (!others.empty()) json.emplace_back("others", others);
  return json_text(json);
}

}  // namespace distwrap::bench
