#include "bench/csv.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>

namespace distwrap::bench {
namespace {

std::string in_quotes(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

std::string csv(const Report& report) {
  std::string text =
      "contestant,op,ranks,bytes,dtype,lat_us_min,lat_us_p50,lat_us_p90,"
      "lat_us_p99,lat_us_p99.9,lat_us_max,first_call_us,algbw_GBps,busbw_GBps,"
      "iters,wrong,limit_us,pattern,reduce,root,ratio,ratio_low,ratio_high,"
      "depth\n";
  for (const Row& row : report.rows) {
    if (!row.measured) continue;
    absl::StrAppend(
        &text, in_quotes(row.contestant), ",",
        std::string(operation_name(row.spec.op)), ",", row.spec.ranks, ",",
        row.spec.bytes, ",", std::string(dtype_name(row.spec.dtype)), ",",
        absl::StrFormat("%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.5f,%.5f,%d,%d,",
                        row.min_us, row.p50_us, row.p90_us, row.p99_us,
                        row.p999_us, row.max_us, row.first_us, row.algbw(),
                        row.busbw(), row.iterations, row.wrong));
    const Operation op = row.spec.op;
    absl::StrAppend(
        &text, row.limit_us > 0 ? absl::StrFormat("%.4f", row.limit_us) : "",
        ",", has_counts(op) ? in_quotes(row.spec.pattern.name()) : "", ",",
        reduces(op) ? std::string(reduce_op_name(row.spec.reduce)) : "", ",",
        has_root(op) ? absl::StrCat(row.spec.root) : "", ",");
    if (row.ratio) {
      absl::StrAppendFormat(&text, "%.4f,%.4f,%.4f,", row.ratio->median,
                            row.ratio->low, row.ratio->high);
    } else {
      absl::StrAppend(&text, ",,,");
    }
    if (op == Operation::kWinPutRate) absl::StrAppend(&text, row.spec.depth);
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace distwrap::bench
