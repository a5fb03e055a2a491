// Who a PMI process manager is, which is what its job can be named after: on
// one host every job has a manager process of its own.
//
// Threads: any. The manager is not asked: Hydra takes a process that has said
// one word to it and ends without a goodbye for a crash, and ends the job.
//
//   auto manager = pmi_manager(6);  // PMI_FD; "30168-1234567"
#ifndef DISTWRAP_SRC_STORE_PMI_MANAGER_H_
#define DISTWRAP_SRC_STORE_PMI_MANAGER_H_

#include <absl/status/statusor.h>

#include <string>

namespace distwrap::store {

// Process and start time of whoever made the socket pair whose end is `fd`, a
// process above this one. Errors: kLaunchMissing when the descriptor is not the
// manager's: MPI_Finalize closes it, and its number may be another file's then.
absl::StatusOr<std::string> pmi_manager(int fd);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_PMI_MANAGER_H_
