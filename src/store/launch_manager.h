// Which rank of which job this process is, where variables alone do not tell:
// the same as detect_launch, which then is given what the process manager told.
//
// Threads: any.
//
//   auto info = find_launch(base::Environment::of_process());
#ifndef DISTWRAP_SRC_STORE_LAUNCH_MANAGER_H_
#define DISTWRAP_SRC_STORE_LAUNCH_MANAGER_H_

#include "store/launch_info.h"

namespace distwrap::store {

// Looks at the manager of the launcher that is used, and only for what is
// missing: at PMI's for the job's identity, at PMIx's for the world size. An
// identity that cannot be had stays empty, with the cause in `no_job_id`.
// Errors: those of detect_launch.
absl::StatusOr<LaunchInfo> find_launch(const base::Environment& environment,
                                       const LaunchNeeds& needs = {});

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_LAUNCH_MANAGER_H_
