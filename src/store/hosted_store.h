// The store of a job that nobody but its ranks serves: rank 0's process does,
// from its first session to its end.
//
// Threads: any. Ownership: the process's; what it serves goes at its exit.
// A lock beside the socket tells that its process lives; it goes with the
// process, so the socket of a dead one is recognised and replaced by the next.
//
//   auto path = meeting_path(environment, "ompi-4240-9c0f...");
//   auto address = host_store(*path, deadline);          // rank 0
//   auto store = Store::connect("unix:" + *path, deadline);  // all
#ifndef DISTWRAP_SRC_STORE_HOSTED_STORE_H_
#define DISTWRAP_SRC_STORE_HOSTED_STORE_H_

#include "base/settings.h"
#include "distwrap/deadline.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

namespace distwrap::store {

// Where a job of this name meets. A path that is too long for a socket gets a
// shorter name, the same on all ranks. Errors: kRunDirectory.
absl::StatusOr<std::string> meeting_path(const base::Environment& environment,
                                         absl::string_view name);

// Serves a store at the path; once, whoever asks in this process. Waits a
// little for another process that serves there to end. Errors:
// kStoreUnreachable with the process that has the place; kRunDirectory when
// something that is no socket of ours is there, which then stays untouched.
absl::Status host_store(const std::string& path, Deadline deadline);

// A process that took the place and was killed there: one that ends tidies up.
struct DeadHost {
  pid_t pid = 0;
  int64_t since_ns = 0;  // when it took the place, on the clock of the boot
};
// Nothing when one that lives has the place, or nobody had it.
std::optional<DeadHost> dead_host(const std::string& path);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_HOSTED_STORE_H_
