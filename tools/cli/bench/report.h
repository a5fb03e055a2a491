// All that a run gives: what was measured, on what, with what.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_REPORT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_REPORT_H_

#include "bench/measure.h"

#include <map>
#include <string>
#include <vector>

namespace distwrap::bench {

// Where a run took place.
struct Machine {
  std::string cpu = {};
  int cores = 0;  // that this process may use
  std::string kernel = {};
  std::string date = {};        // "2025-11-21 17:40 UTC"
  double load = 0;              // of the last minute, at the start
  std::string version = {};     // of distwrap
  std::string compiler = {};    // "gcc 12.2.0"
  std::string build_type = {};  // "Release"
  std::map<std::string, std::string> environment = {};  // DISTWRAP_*
};

Machine this_machine();

struct Report {
  Machine machine = {};
  int ranks = 0;
  bool pinned = false;
  Plan plan = {};
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  int root = 0;
  std::map<std::string, std::string> hints = {};
  // Columns; the second is a copy of the first when it ends in "#2".
  std::vector<std::string> contestants = {};
  std::string baseline = {};  // what ratios refer to
  std::string control = {};   // the baseline's copy, or ""
  // Case by case, in each in the order of `contestants`.
  std::vector<Row> rows = {};

  int64_t wrong() const;
  // Rows of one operation.
  std::vector<Row> of(Operation op) const;
  // Operations that have rows, in order.
  std::vector<Operation> ops() const;
};

// "AMD EPYC, 2 cores, Linux 6.1, distwrap 0.1.0 (gcc 12.2.0, Release)".
std::string describe(const Machine& machine);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_REPORT_H_
