// The results of `distwrap bench tune`: as a table, as JSON, and as the file
// that DISTWRAP_TUNING names.
//
// Threads: pure functions, except `replace_file`.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_TUNE_REPORT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_TUNE_REPORT_H_

#include "bench/machine.h"
#include "bench/tune/points.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

namespace distwrap::bench {

struct Tuned {
  Experiment experiment = {};
  std::vector<SizeRatio> points = {};
  Found found = {};
};

struct TuneReport {
  Machine machine = {};
  int ranks = 0;
  std::vector<Tuned> tuned = {};
};

// An error when the ranks did not measure one of the thresholds.
absl::StatusOr<TuneReport> tune_report(const Machine& machine, int ranks,
                                       const Points& points);

std::string show_tuning(const TuneReport& report);
std::string tuning_json(const TuneReport& report, const std::string& path);

// Values of the existing file that this run did not measure, and that stay:
// "shm.a" -> "5".
using KeptValues = std::map<std::string, std::string>;
std::string tuning_text(const TuneReport& report, const KeptValues& kept);
// The values of an existing file; empty when there is none.
absl::StatusOr<KeptValues> values_of(const std::string& path);

// kPermissionDenied when the file could not be written.
absl::Status check_writable(const std::string& path);
// Replaces the file atomically: the old one stays or the new one is complete.
absl::Status replace_file(const std::string& path, const std::string& text);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TUNE_REPORT_H_
