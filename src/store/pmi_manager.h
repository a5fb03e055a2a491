// The process id of a PMI process manager, which serves as the job's name,
// since every job on a host has a manager process of its own.
//
// Threads: any. The manager is not asked over its protocol: Hydra treats a
// process that has sent one message and ends without finalizing as a crash, and
// ends the job.
//
//   auto manager = pmi_manager(6);  // PMI_FD; "30168-1234567"
#ifndef DISTWRAP_SRC_STORE_PMI_MANAGER_H_
#define DISTWRAP_SRC_STORE_PMI_MANAGER_H_

#include <absl/status/statusor.h>

#include <string>

namespace distwrap::store {

// The id and start time of the process that created the socket pair with the
// end `fd`, an ancestor of this process. Errors: kLaunchMissing when the
// descriptor is not the manager's: MPI_Finalize closes it, and another file may
// have its number by then.
absl::StatusOr<std::string> pmi_manager(int fd);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_PMI_MANAGER_H_
