// A whole run: all operations at all sizes with all contestants.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_SWEEP_H_
#define DISTWRAP_TOOLS_CLI_BENCH_SWEEP_H_

#include "bench/contestant.h"
#include "bench/limit.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/side_channel.h"

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::bench {

// The contestants, in the order of the columns.
struct Field {
  std::vector<std::unique_ptr<Contestant>> contestants = {};
  size_t baseline = 0;   // index of the contestant to which ratios refer
  bool control = false;  // the last contestant is a copy of the baseline
};

// OK when `kinds` offers all libraries that --vs names; the error lists them.
absl::Status check_kinds(const Options& options,
                         const std::vector<ContestantKind>& kinds);

// The backends, then the libraries of --vs, then the control. Collective; an
// error of one rank is returned on all.
absl::StatusOr<Field> make_field(const Options& options,
                                 const std::vector<ContestantKind>& kinds,
                                 std::shared_ptr<Store> store,
                                 SideChannel& side);

// Callbacks on every rank during the run.
struct Observer {
  // Before a case: a text such as "all_reduce 4 KiB", its number from 1, and
  // the number of cases.
  std::function<void(const std::string&, size_t, size_t)> on_case = {};
  // After a case.
  std::function<void(const std::vector<Row>&)> on_rows = {};
  // After the last size of an operation.
  std::function<void(const Report&, Operation)> on_operation = {};
};

// The report before the first measurement.
Report blank_report(const Options& options, const Field& field, int ranks);

// Collective. The report includes wrong results. With `limits` each row has its
// own limit.
absl::StatusOr<Report> sweep(const Options& options, const Field& field,
                             SideChannel& side, const Observer& observer,
                             LimitProbe* limits = nullptr);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_SWEEP_H_
