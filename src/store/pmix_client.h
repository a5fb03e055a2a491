// The one question that we ask a PMIx server: how many ranks the job has.
//
// Threads: any. The client library is loaded when it is asked the first time,
// so only jobs that are told no other way need it; it stays initialised to the
// end of the process, since Open MPI cannot start after a full end of it.
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
