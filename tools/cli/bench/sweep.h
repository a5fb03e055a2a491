// A whole run: every operation at every size, by every contestant.
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

// Who takes part, in the order of the columns.
struct Field {
  std::vector<std::unique_ptr<Contestant>> contestants = {};
  size_t baseline = 0;   // what ratios refer to
  bool control = false;  // the last one is a copy of the baseline
};

// OK when `kinds` offers all that --vs names; else what there is.
absl::Status check_kinds(const Options& options,
                         const std::vector<ContestantKind>& kinds);

// The backends, then those of --vs, then the control. Collective; an error of
// one rank is everybody's.
absl::StatusOr<Field> make_field(const Options& options,
                                 const std::vector<ContestantKind>& kinds,
                                 std::shared_ptr<Store> store,
                                 SideChannel& side);

// Told on every rank as the run goes on.
struct Observer {
  // Before a case: "all_reduce 4 KiB", its number from 1, how many there are.
  std::function<void(const std::string&, size_t, size_t)> on_case = {};
  // After it.
  std::function<void(const std::vector<Row>&)> on_rows = {};
  // After the last size of an operation.
  std::function<void(const Report&, Operation)> on_operation = {};
};

// The report as it is before anything is measured.
Report blank_report(const Options& options, const Field& field, int ranks);

// Collective. A report, wrong results included. With `limits` each row has its
// own.
absl::StatusOr<Report> sweep(const Options& options, const Field& field,
                             SideChannel& side, const Observer& observer,
                             LimitProbe* limits = nullptr);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_SWEEP_H_
