#include "bench/nccl_text.h"

#include "bench/table.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

namespace distwrap::bench {
namespace {

constexpr char kTitles[] =
    "#\n"
    "#                                                              "
    "out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   "
    "busbw #wrong     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  "
    "(GB/s)            (us)  (GB/s)  (GB/s)\n";

std::string type_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    case DType::kI8:
    case DType::kI32:
    case DType::kI64:
      return absl::StrCat("int", 8 * dtype_size(dtype));
    case DType::kU8:
    case DType::kU32:
    case DType::kU64:
      return absl::StrCat("uint", 8 * dtype_size(dtype));
    default:
      return std::string(dtype_name(dtype));
  }
}

std::string reduction(const Row& row) {
  if (!reduces(row.spec.op)) return "none";
  if (row.spec.reduce == ReduceOp::kProduct) return "prod";
  return std::string(reduce_op_name(row.spec.reduce));
}

std::string time_cell(double us) {
  if (us >= 10000) return absl::StrFormat("%.0f", us);
  if (us >= 1000) return absl::StrFormat("%.1f", us);
  return absl::StrFormat("%.2f", us);
}

}  // namespace

std::string nccl_heading(const Report& report) {
  std::string text;
  for (absl::string_view line :
       absl::StrSplit(heading(report), '\n', absl::SkipEmpty())) {
    absl::StrAppend(&text, "# ", line, "\n");
  }
  return text;
}

std::string nccl_text(const Report& report, Operation op) {
  std::string text;
  for (const std::string& contestant : report.contestants) {
    absl::StrAppend(&text, "#\n# ", operation_name(op), " by ", contestant,
                    ", ", report.ranks, " ranks\n", kTitles);
    for (const Row& row : report.of(op)) {
      if (row.contestant != contestant || !row.measured) continue;
      const std::string wrong =
          report.plan.check ? absl::StrCat(row.wrong) : "N/A";
      absl::StrAppendFormat(
          &text,
          "%12d  %12d  %8s  %6s  %6d  %7s  %6.2f  %6.2f  %5s  %7s  %6s  %6s  "
          "%5s\n",
          row.spec.bytes, row.spec.bytes / dtype_size(row.spec.dtype),
          type_name(row.spec.dtype), reduction(row),
          has_root(op) ? row.spec.root : -1, time_cell(row.p50_us), row.algbw(),
          row.busbw(), wrong, "N/A", "N/A", "N/A", "N/A");
    }
  }
  return text;
}

std::string nccl_summary(const Report& report) {
  double sum = 0;
  int rows = 0;
  for (const Row& row : report.rows) {
    if (!row.measured) continue;
    sum += row.busbw();
    ++rows;
  }
  return absl::StrFormat(
      "# Out of bounds values : %d %s\n# Avg bus bandwidth    : %g\n#\n",
      report.wrong(), report.wrong() == 0 ? "OK" : "FAILED",
      rows > 0 ? sum / rows : 0);
}

}  // namespace distwrap::bench
