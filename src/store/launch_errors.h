// Errors about the variables of launchers.
//
// Threads: pure functions.
#ifndef DISTWRAP_SRC_STORE_LAUNCH_ERRORS_H_
#define DISTWRAP_SRC_STORE_LAUNCH_ERRORS_H_

#include "base/settings.h"
#include "store/launch_info.h"

#include <absl/status/status.h>
#include <absl/types/span.h>

namespace distwrap::store {

// A launcher whose variables give everything that was asked for.
struct Candidate {
  const LauncherRow* row;
  int rank = -1, world_size = 0;  // this process's values for facts that were
                                  // not asked for
};

// kLaunchMissing: no row of the table gives what is needed.
absl::Status nothing_found(const base::Environment& environment,
                           absl::Span<const LauncherRow> rows,
                           const LaunchNeeds& needs);
// kLauncherConflict between two launchers.
absl::Status conflict(const Candidate& a, const Candidate& b,
                      const LaunchNeeds& needs);
// kLaunchMissing: only one of local rank and local size is set, to `value`.
absl::Status half_local(const LauncherRow& row, bool have_rank, int value);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_LAUNCH_ERRORS_H_
