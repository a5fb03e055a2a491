// Compares this run with an earlier one.
//
//   auto old = parse_document(text);           // bench/json.h
//   absl::Status fits = comparable(*old, report);
//   Comparison comparison = compare(*old, report, 0.05);
#ifndef DISTWRAP_TOOLS_CLI_BENCH_COMPARE_H_
#define DISTWRAP_TOOLS_CLI_BENCH_COMPARE_H_

#include "bench/report.h"

#include <absl/status/status.h>

#include <string>
#include <vector>

namespace distwrap::bench {

// A row of a file: the names of the measurement and its times.
struct OldRow {
  std::string contestant = {}, op = {}, dtype = {}, reduce = {}, pattern = {};
  int64_t bytes = 0;
  int root = 0;
  int depth = kMostDepth;  // puts before a flush, for win_put_rate
  double p50_us = 0;
  std::vector<double> round_p50_us = {};
};

struct OldRun {
  Machine machine = {};  // the fields that must be equal in a comparison
  int ranks = 0;
  bool pinned = false, cold = false;
  std::vector<OldRow> rows = {};
};

// This run in the form of a file.
OldRun as_old(const Report& report);

// An error that names every difference that makes the runs incomparable:
// machine, kind of build, number of ranks, pinning, caches.
absl::Status comparable(const OldRun& old, const Report& report);

enum class Verdict { kSame, kFaster, kSlower };

struct ComparedRow {
  OldRow now = {};
  double old_p50_us = 0;
  Ratio ratio = {};  // now / old, with the interval of the rounds
  Verdict verdict = Verdict::kSame;
};

struct Comparison {
  OldRun old = {};
  double threshold = 0;
  std::vector<ComparedRow> rows = {};
  // "all_reduce 8 B by distwrap/gloo": rows of only one run.
  std::vector<std::string> only_old = {}, only_now = {};

  int slower() const;
};

// A row is slower only when the low end of the interval of its ratio is above 1
// + threshold, so the scatter of the rounds does not count.
Comparison compare(const OldRun& old, const Report& report, double threshold);

std::string comparison_text(const Comparison& comparison);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_COMPARE_H_
