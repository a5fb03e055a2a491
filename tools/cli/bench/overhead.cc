#include "bench/overhead.h"

#include "bench/size.h"
#include "bench/text_table.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <vector>

namespace distwrap::bench {
namespace {

std::string ns(double us) { return absl::StrFormat("%.1f", us * 1000); }

}  // namespace

std::string overhead_table(const Report& report) {
  std::vector<std::vector<std::string>> lines = {
      {"operation", "size", "distwrap ns", "table ns", "overhead ns",
       "95 % interval", "#wrong"}};
  std::vector<std::string> absent;
  for (size_t at = 0; at + 2 <= report.rows.size(); at += 2) {
    const Row& through = report.rows[at];
    const Row& straight = report.rows[at + 1];
    const std::string name(operation_name(through.spec.op));
    if (!through.overhead_ns) {
      if (absent.empty() || absent.back() != name) absent.push_back(name);
      continue;
    }
    const Difference& more = *through.overhead_ns;
    lines.push_back(
        {name, through.spec.bytes == 0 ? "-" : format_size(through.spec.bytes),
         ns(through.p50_us), ns(straight.p50_us),
         absl::StrFormat("%.1f", more.median),
         absl::StrFormat("[%.1f, %.1f]", more.low, more.high),
         report.plan.check ? absl::StrCat(through.wrong + straight.wrong)
                           : "-"});
  }
  std::string text = absl::StrCat(
      "\noverhead over backend: a call through distwrap less the same call "
      "straight into the\nbackend's table, median over the rounds\n",
      text_table({}, lines));
  for (const std::string& name : absent) {
    absl::StrAppend(&text, name, ": not between one rank\n");
  }
  return text;
}

}  // namespace distwrap::bench
