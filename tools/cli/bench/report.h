// The complete result of a run: measurements, machine, settings.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_REPORT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_REPORT_H_

#include "bench/limit.h"
#include "bench/machine.h"
#include "bench/measure.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::bench {

struct Report {
  Machine machine = {};
  Noise noise = {};  // until the end of the run
  int ranks = 0;
  bool pinned = false;
  Plan plan = {};
  DType dtype = DType::kF32;
  ReduceOp::Kind reduce = ReduceOp::kSum;
  int root = 0;
  int depth = kMostDepth;  // puts before a flush, for win_put_rate
  std::string pattern = {};
  std::optional<Latency> latency = std::nullopt;  // with --limit
  std::map<std::string, std::string> hints = {};
  // The columns. The second one is a copy of the first if it ends in "#2".
  std::vector<std::string> contestants = {};
  std::string baseline = {};  // the contestant to which ratios refer
  std::string control = {};   // the baseline's copy, or ""
  // Case by case; the rows of a case are in the order of `contestants`.
  std::vector<Row> rows = {};

  bool cold() const { return plan.evictor != nullptr; }
  int64_t wrong() const;
  // Rows of one operation.
  std::vector<Row> of(Operation op) const;
  // The operations that have rows, in order.
  std::vector<Operation> ops() const;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_REPORT_H_
