#include "bench/compare.h"

#include "bench/size.h"
#include "bench/text_table.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <utility>

namespace distwrap::bench {
namespace {

bool same_case(const OldRow& a, const OldRow& b) {
  return a.contestant == b.contestant && a.op == b.op && a.dtype == b.dtype &&
         a.reduce == b.reduce && a.pattern == b.pattern && a.bytes == b.bytes &&
         a.root == b.root && a.depth == b.depth;
}

std::string case_name(const OldRow& row) {
  std::string text = row.op;
  if (row.bytes > 0) absl::StrAppend(&text, " ", format_size(row.bytes));
  absl::StrAppend(&text, ", ", row.dtype);
  if (!row.reduce.empty()) absl::StrAppend(&text, ", ", row.reduce);
  if (!row.pattern.empty()) absl::StrAppend(&text, ", ", row.pattern);
  if (row.root != 0) absl::StrAppend(&text, ", root ", row.root);
  if (row.depth != kMostDepth) absl::StrAppend(&text, ", depth ", row.depth);
  return absl::StrCat(text, ", by ", row.contestant);
}

std::string in_words(bool value) { return value ? "yes" : "no"; }
std::string in_words(int value) { return absl::StrCat(value); }
std::string in_words(const std::string& value) {
  return absl::StrCat("'", value, "'");
}

const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFaster:
      return "faster";
    case Verdict::kSlower:
      return "SLOWER";
    case Verdict::kSame:
      break;
  }
  return "";
}

}  // namespace

OldRun as_old(const Report& report) {
  OldRun run;
  run.machine = report.machine;
  run.ranks = report.ranks;
  run.pinned = report.pinned;
  run.cold = report.cold();
  for (const Row& row : report.rows) {
    if (!row.measured) continue;
    OldRow one;
    one.contestant = row.contestant;
    one.op = std::string(protocol_name(row.spec.op));
    one.dtype = std::string(dtype_name(row.spec.dtype));
    if (reduces(row.spec.op)) {
      one.reduce = std::string(reduce_op_name(row.spec.reduce));
    }
    if (has_counts(row.spec.op)) one.pattern = row.spec.pattern.name();
    if (has_root(row.spec.op)) one.root = row.spec.root;
    if (row.spec.op == Operation::kWinPutRate) one.depth = row.spec.depth;
    one.bytes = row.spec.bytes;
    one.p50_us = row.p50_us;
    one.round_p50_us = row.round_p50_us;
    run.rows.push_back(std::move(one));
  }
  return run;
}

absl::Status comparable(const OldRun& old, const Report& report) {
  const OldRun now = as_old(report);
  std::vector<std::string> differ;
  const auto check = [&](const char* what, const auto& then,
                         const auto& today) {
    if (then == today) return;
    differ.push_back(absl::StrCat(what, " was ", in_words(then), " and is ",
                                  in_words(today)));
  };
  check("processor", old.machine.cpu, now.machine.cpu);
  check("number of cores", old.machine.cores, now.machine.cores);
  check("build type", old.machine.build_type, now.machine.build_type);
  check("compiler", old.machine.compiler, now.machine.compiler);
  check("compiler flags", old.machine.flags, now.machine.flags);
  check("number of ranks", old.ranks, now.ranks);
  check("pinned", old.pinned, now.pinned);
  check("cold caches", old.cold, now.cold);
  if (differ.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("it does not fit this run: ", absl::StrJoin(differ, "; ")));
}

Comparison compare(const OldRun& old, const Report& report, double threshold) {
  Comparison comparison;
  comparison.threshold = threshold;
  OldRun now = as_old(report);
  const auto find = [](const std::vector<OldRow>& rows, const OldRow& row) {
    return std::find_if(rows.begin(), rows.end(), [&](const OldRow& other) {
      return same_case(row, other);
    });
  };
  for (const OldRow& row : old.rows) {
    if (find(now.rows, row) == now.rows.end()) {
      comparison.only_old.push_back(case_name(row));
    }
  }
  for (OldRow& row : now.rows) {
    const auto then = find(old.rows, row);
    if (then == old.rows.end()) {
      comparison.only_now.push_back(case_name(row));
      continue;
    }
    ComparedRow compared;
    compared.old_p50_us = then->p50_us;
    compared.ratio = unpaired_ratio(row.round_p50_us, then->round_p50_us);
    if (compared.ratio.low > 1 + threshold) {
      compared.verdict = Verdict::kSlower;
    } else if (compared.ratio.high > 0 &&
               compared.ratio.high < 1 / (1 + threshold)) {
      compared.verdict = Verdict::kFaster;
    }
    compared.now = std::move(row);
    comparison.rows.push_back(std::move(compared));
  }
  comparison.old = old;
  return comparison;
}

int Comparison::slower() const {
  return static_cast<int>(std::count_if(
      rows.begin(), rows.end(),
      [](const ComparedRow& row) { return row.verdict == Verdict::kSlower; }));
}

std::string comparison_text(const Comparison& comparison) {
  std::string text =
      absl::StrCat("\ncompared with the run of ", comparison.old.machine.date,
                   ", distwrap ", comparison.old.machine.version,
                   comparison.old.machine.commit.empty()
                       ? ""
                       : absl::StrCat(" (", comparison.old.machine.commit, ")"),
                   "; now / then [95 % interval]\n");
  std::vector<std::vector<std::string>> lines = {
      {"case", "then \u00b5s", "now \u00b5s", "ratio", ""}};
  for (const ComparedRow& row : comparison.rows) {
    lines.push_back({case_name(row.now), format_number(row.old_p50_us),
                     format_number(row.now.p50_us),
                     absl::StrFormat("%.3f [%.3f, %.3f]", row.ratio.median,
                                     row.ratio.low, row.ratio.high),
                     word(row.verdict)});
  }
  absl::StrAppend(&text, text_table({}, lines));
  for (const std::string& name : comparison.only_old) {
    absl::StrAppend(&text, "only then: ", name, "\n");
  }
  for (const std::string& name : comparison.only_now) {
    absl::StrAppend(&text, "only now: ", name, "\n");
  }
  absl::StrAppendFormat(&text, "%d of %d slower by more than %g %%\n",
                        comparison.slower(), comparison.rows.size(),
                        comparison.threshold * 100);
  return text;
}

}  // namespace distwrap::bench
