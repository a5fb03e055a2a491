#include "doctor/report.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>

namespace distwrap::cli {
namespace {

int64_t count(const std::vector<Finding>& findings, Health health) {
  return std::count_if(
      findings.begin(), findings.end(),
      [&](const Finding& finding) { return finding.health == health; });
}

}  // namespace

std::string to_text(const std::vector<Finding>& findings, bool quiet) {
  std::string text;
  for (const Finding& finding : findings) {
    if (quiet && finding.health == Health::kOk) continue;
    absl::StrAppendFormat(&text, "%-5s %-16s %s\n", health_name(finding.health),
                          finding.check, finding.what);
    if (!finding.why.empty())
      absl::StrAppendFormat(&text, "%22s why: %s\n", "", finding.why);
    if (!finding.fix.empty())
      absl::StrAppendFormat(&text, "%22s fix: %s\n", "", finding.fix);
  }
  if (!quiet)
    absl::StrAppend(&text, "\n", count(findings, Health::kOk), " ok, ",
                    count(findings, Health::kWarn), " warn, ",
                    count(findings, Health::kFail), " fail\n");
  return text;
}

JsonObject to_json(const std::vector<Finding>& findings, bool quiet) {
  JsonArray array;
  for (const Finding& finding : findings) {
    if (quiet && finding.health == Health::kOk) continue;
    array.push_back(JsonObject{{"health", health_name(finding.health)},
                               {"check", finding.check},
                               {"what", finding.what},
                               {"why", finding.why},
                               {"fix", finding.fix}});
  }
  return {{"schema", 1},
          {"tool", "distwrap doctor"},
          {"health", health_name(worst(findings))},
          {"findings", array}};
}

}  // namespace distwrap::cli
