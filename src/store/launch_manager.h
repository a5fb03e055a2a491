// The rank of this process and its job, for launchers whose variables are not
// enough: asks the process manager for the missing facts and passes them to
// detect_launch.
//
// Threads: any.
//
//   auto info = find_launch(base::Environment::of_process());
#ifndef DISTWRAP_SRC_STORE_LAUNCH_MANAGER_H_
#define DISTWRAP_SRC_STORE_LAUNCH_MANAGER_H_

#include "store/launch_info.h"

namespace distwrap::store {

// Asks only the manager of the launcher that is used, and only for missing
// facts: PMI's for the job's identity, PMIx's for the world size. An identity
// that cannot be found stays empty, with the cause in `no_job_id`. Errors:
// those of detect_launch.
absl::StatusOr<LaunchInfo> find_launch(const base::Environment& environment,
                                       const LaunchNeeds& needs = {});

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_LAUNCH_MANAGER_H_
