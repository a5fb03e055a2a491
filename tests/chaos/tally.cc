#include "chaos/tally.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>

namespace distwrap::chaos {
namespace {

std::string ms(int64_t ns) {
  return absl::StrFormat("%.1f", static_cast<double>(ns) / 1e6);
}

// Escapes a quoted text.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += c >= ' ' ? c : ' ';
  }
  return safe;
}

}  // namespace

int64_t Tally::late(size_t measure) const {
  const int64_t most = absl::ToInt64Nanoseconds(which->measures[measure].most);
  return std::count_if(times[measure].begin(), times[measure].end(),
                       [&](int64_t ns) { return ns > most; });
}

int64_t Tally::at(size_t measure, double part) const {
  const auto& all = times[measure];
  const auto place =
      static_cast<size_t>(std::ceil(part * static_cast<double>(all.size())));
  return all[std::min(std::max<size_t>(place, 1), all.size()) - 1];
}

std::string table_of(const std::vector<Tally>& tallies) {
  std::string text =
      "| case | backend | tries | bad | time, ms | p50 | p99 | most | promised "
      "| late |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- "
      "|\n";
  for (const Tally& tally : tallies) {
    std::string head =
        absl::StrCat("| ", tally.which->name, " | ", tally.setting.backend,
                     " | ", tally.tries, " | ", tally.bad, " | ");
    bool any = false;
    for (size_t m = 0; m < tally.times.size(); ++m) {
      if (tally.times[m].empty()) continue;
      const Measure& measure = tally.which->measures[m];
      absl::StrAppend(&text, head, measure.what, " | ", ms(tally.at(m, 0.5)),
                      " | ", ms(tally.at(m, 0.99)), " | ", ms(tally.at(m, 1)),
                      " | ", ms(absl::ToInt64Nanoseconds(measure.most)), " | ",
                      tally.late(m), " of ", tally.times[m].size(), " |\n");
      head = "| | | | | ";
      any = true;
    }
    if (!any) absl::StrAppend(&text, head, "| | | | | |\n");
    if (tally.skipped > 0)
      absl::StrAppend(&text, "| | | ", tally.skipped, " skipped | | ",
                      tally.why_skipped, " | | | | | |\n");
  }
  return text;
}

std::vector<std::string> broken_promises(const std::vector<Tally>& tallies) {
  std::vector<std::string> broken;
  for (const Tally& tally : tallies)
    for (size_t m = 0; m < tally.times.size(); ++m) {
      const Measure& measure = tally.which->measures[m];
      const auto hold = [&](const char* name, double part,
                            absl::Duration promised) {
        const int64_t ns = tally.at(m, part);
        if (absl::Nanoseconds(ns) <= promised) return;
        broken.push_back(absl::StrCat(
            tally.which->name, " over ", tally.setting.backend, ", ",
            measure.what, ": ", name, " of ", tally.times[m].size(),
            " times is ", ms(ns), " ms, promised are ",
            ms(absl::ToInt64Nanoseconds(promised))));
      };
      if (tally.times[m].size() >= 100) hold("p99", 0.99, measure.usual);
      if (!tally.times[m].empty()) hold("the longest", 1, measure.most);
    }
  return broken;
}

std::string json_of(const std::vector<Tally>& tallies) {
  std::vector<std::string> cases;
  for (const Tally& tally : tallies) {
    std::vector<std::string> measures;
    for (size_t m = 0; m < tally.times.size(); ++m) {
      if (tally.times[m].empty()) continue;
      const Measure& measure = tally.which->measures[m];
      measures.push_back(absl::StrCat(
          "{\"what\": \"", escaped(measure.what), "\", \"times\": ",
          tally.times[m].size(), ", \"p50_ms\": ", ms(tally.at(m, 0.5)),
          ", \"p99_ms\": ", ms(tally.at(m, 0.99)),
          ", \"most_ms\": ", ms(tally.at(m, 1)),
          ", \"promised_ms\": ", ms(absl::ToInt64Nanoseconds(measure.most)),
          ", \"late\": ", tally.late(m), "}"));
    }
    cases.push_back(absl::StrCat(
        "  {\"case\": \"", tally.which->name, "\", \"backend\": \"",
        escaped(tally.setting.backend), "\", \"ranks\": ", tally.setting.ranks,
        ", \"seed\": ", tally.setting.seed, ", \"tries\": ", tally.tries,
        ", \"bad\": ", tally.bad, ", \"skipped\": ", tally.skipped,
        ", \"why_skipped\": \"", escaped(tally.why_skipped),
        "\", \"counted\": ", tally.counted,
        ", \"seconds\": ", absl::ToInt64Seconds(tally.took),
        ", \"measures\": [", absl::StrJoin(measures, ", "), "]}"));
  }
  return absl::StrCat("[\n", absl::StrJoin(cases, ",\n"), "\n]\n");
}

}  // namespace distwrap::chaos
