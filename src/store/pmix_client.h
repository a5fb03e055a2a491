// Asks a PMIx server for what a launcher's variables do not tell.
//
// Threads: any. The client library is loaded on the first request, so only jobs
// without another source need it. It stays initialised until the process ends,
// because Open MPI cannot start after PMIx was finalized completely.
//
//   auto size = pmix_job_size();
#ifndef DISTWRAP_SRC_STORE_PMIX_CLIENT_H_
#define DISTWRAP_SRC_STORE_PMIX_CLIENT_H_

#include <absl/status/statusor.h>

#include <string>

namespace distwrap::store {

// The number of ranks of the job, and of those on this host. Errors:
// kLaunchMissing with the cause.
absl::StatusOr<int> pmix_job_size();
absl::StatusOr<int> pmix_local_size();

// The host of rank 0 as the launcher names it, by a name or an address. Errors
// as above.
absl::StatusOr<std::string> pmix_first_host();

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_PMIX_CLIENT_H_
