// Asks a PMIx server for the number of ranks of the job.
//
// Threads: any. The client library is loaded on the first request, so only jobs
// without another source need it. It stays initialised until the process ends,
// because Open MPI cannot start after PMIx was finalized completely.
//
//   auto size = pmix_job_size();
#ifndef DISTWRAP_SRC_STORE_PMIX_CLIENT_H_
#define DISTWRAP_SRC_STORE_PMIX_CLIENT_H_

#include <absl/status/statusor.h>

namespace distwrap::store {

// Errors: kLaunchMissing with the cause.
absl::StatusOr<int> pmix_job_size();

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_PMIX_CLIENT_H_
