// A report with known numbers.
#ifndef DISTWRAP_TESTS_UNIT_BENCH_SAMPLE_REPORT_H_
#define DISTWRAP_TESTS_UNIT_BENCH_SAMPLE_REPORT_H_

#include "bench/report.h"

namespace distwrap::bench {

// Two ranks; "distwrap/gloo" and its baseline "raw_gloo" at all_reduce of 8 B,
// 4 KiB and 16 MiB, and at barrier.
inline Report sample_report() {
  Report report;
  report.machine.cpu = "A <fast> \"processor\" & more";
  report.machine.cores = 2;
  report.machine.caches = {{1, "Data", 32768}};
  report.machine.memory_bytes = int64_t{8} << 30;
  report.machine.commit = "v1-2-gabc";
  report.machine.flags = "-O2";
  report.machine.kernel = "Linux 6.1";
  report.machine.date = "2025-01-02 03:04 UTC";
  report.machine.version = "0.1.0";
  report.machine.compiler = "gcc 12";
  report.machine.build_type = "Release";
  report.machine.environment = {{"DISTWRAP_LOG", "info"}};
  report.ranks = 2;
  report.contestants = {"distwrap/gloo", "raw_gloo"};
  report.baseline = "raw_gloo";
  const auto add = [&](Operation op, int64_t bytes, double p50) {
    for (size_t i = 0; i < 2; ++i) {
      Row row;
      row.contestant = report.contestants[i];
      row.spec.op = op;
      row.spec.ranks = 2;
      row.spec.bytes = bytes;
      row.in_bytes = row.out_bytes = bytes;
      row.measured = true;
      row.iterations = 100;
      row.first_us = 10 * p50;
      row.min_us = p50 / 2;
      row.p50_us = p50 * (i == 0 ? 1.25 : 1);
      row.p90_us = p50 * 2;
      row.p99_us = p50 * 3;
      row.max_us = p50 * 4;
      row.round_p50_us = {p50, p50};
      if (i == 0) row.ratio = Ratio{1.25, 1.2, 1.3};
      report.rows.push_back(row);
    }
  };
  add(Operation::kBarrier, 0, 30);
  add(Operation::kAllReduce, 8, 40);
  add(Operation::kAllReduce, 4096, 48);
  add(Operation::kAllReduce, 16 << 20, 12000);
  return report;
}

}  // namespace distwrap::bench

#endif  // DISTWRAP_TESTS_UNIT_BENCH_SAMPLE_REPORT_H_
