// The store of a job without a server of its own: the process of rank 0 serves
// it, from its first session to the end of the process. On other hosts one
// process serves as the host's agent, in the same way.
//
// Threads: any. Ownership: the process; the store goes with it. A lock beside
// the socket shows that the serving process lives. The kernel releases the lock
// with the process, so the next process recognises and replaces a dead
// process's socket.
//
//   auto path = meeting_path(environment, "ompi-4240-9c0f...");
//   auto address = host_store(*path, deadline);          // rank 0
//   auto store = Store::connect("unix:" + *path, deadline);  // all
#ifndef DISTWRAP_SRC_STORE_HOSTED_STORE_H_
#define DISTWRAP_SRC_STORE_HOSTED_STORE_H_

#include "base/settings.h"
#include "distwrap/deadline.h"
#include "store/server.h"

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

namespace distwrap::store {

// The socket path at which a job of this name meets. A path that is too long
// for a socket gets a shorter name, equal on all ranks. Errors: kRunDirectory.
absl::StatusOr<std::string> meeting_path(const base::Environment& environment,
                                         absl::string_view name);

// Serves a store at the path, and in the network if `network` is given; further
// calls in this process do nothing. Waits a little for a process that serves
// there and is ending. Errors: kStoreUnreachable with the process that holds
// the place, or when no port can be had at that host; kRunDirectory when
// something other than a socket of distwrap lies there, which then stays
// untouched.
absl::Status host_store(const std::string& path, Deadline deadline,
                        const std::optional<NetworkService>& network = {});

// Makes this process the agent of its host, if no living process is: it carries
// the store that `find` reaches to the processes that connect to the path.
// Returns the process that has the place, this one or another. Errors: of
// `find`; kRunDirectory.
absl::StatusOr<pid_t> host_agent(
    const std::string& path,
    absl::FunctionRef<absl::StatusOr<NetworkAddress>()> find,
    const TlsPsk& psk);
// The process that has the place; 0 when none has.
pid_t serving_process(const std::string& path);

// A process that took the place and was killed there; a process that ends
// normally tidies up.
struct DeadHost {
  pid_t pid = 0;
  int64_t since_ns = 0;  // when it took the place; nanoseconds since boot
};
// The killed process; nullopt when a living process has the place or none ever
// had it.
std::optional<DeadHost> dead_host(const std::string& path);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_HOSTED_STORE_H_
