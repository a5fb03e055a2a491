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

#include <string>

namespace distwrap::store {

// Asks only the manager of the launcher that is used, and only for missing
// facts: PMI's for the job's identity, PMIx's for the world size
// and the number of ranks on this host. An identity
// that cannot be found stays empty, with the cause in `no_job_id`. Errors:
// those of detect_launch.
absl::StatusOr<LaunchInfo> find_launch(const base::Environment& environment,
                                       const LaunchNeeds& needs = {});

// The host on which the launcher has started rank 0: what first_host tells,
// else what PMIx tells. "" when neither does; errors of PMIx.
absl::StatusOr<std::string> find_first_host(
    const LaunchInfo& info, const base::Environment& environment);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_LAUNCH_MANAGER_H_
