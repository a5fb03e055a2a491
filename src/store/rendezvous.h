// This process's rank and the place where it meets the other ranks. Values that
// the program gave go before the launcher's.
//
// Threads: any.
//
//   auto place = find_rendezvous({}, environment);
//   auto store = meet(*place, deadline);
#ifndef DISTWRAP_SRC_STORE_RENDEZVOUS_H_
#define DISTWRAP_SRC_STORE_RENDEZVOUS_H_

#include "base/settings.h"
#include "distwrap/deadline.h"
#include "distwrap/store.h"
#include "store/job_key.h"
#include "store/launch_info.h"
#include "store/server.h"

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>

namespace distwrap::store {

// The values that a program gave; a negative or empty one was not given.
struct InitRequest {
  int rank = -1, world_size = -1;
  std::string init_method = {};
  bool has_store = false;
  // The job's key, without which only ranks of one host can meet.
  std::optional<JobKey> key = std::nullopt;
};

struct Rendezvous {
  int rank = -1, world_size = -1;
  // "unix:/path", or "tls://host:port" for ranks of other hosts; "" when a
  // store was given or none is needed.
  std::string address = {};
  // The socket that the process of rank 0 serves; "" when another process
  // serves.
  std::string hosted_path = {};
  // Where the process of rank 0 serves the other hosts, if there may be any.
  std::optional<NetworkService> network = std::nullopt;
  // On another host than the store's: the socket of that host's agent, one of
  // its processes; "" when this process reaches the store itself.
  std::string agent_path = {};
  // The address of this host in the network of the job's hosts; "" when no
  // other host is known of.
  std::string own_address = {};
  // The address of rank 0's host, where it is this host's too. On another host
  // than rank 0's that is a mistake, for example of /etc/hosts.
  std::string taken_for_own = {};
  // The prefix of keys; "" when the job is not known.
  std::string job = {};
};

// Errors: those of find_launch and parse_init_method; kInvalidArgument for a
// rank outside of the world; kStoreConflict for a store together with an init
// method; kLaunchMissing when no source names a meeting place; kAuthFailed for
// several hosts without a key; kStoreUnreachable when rank 0 is not on the host
// that was named; kUnsupported for several hosts under a launcher that names
// none. Logs a warning about launchers that contradict and are not
// used.
absl::StatusOr<Rendezvous> find_rendezvous(
    const InitRequest& request, const base::Environment& environment);

// The store at the place's address; the rank that serves starts the server
// first. Waits until the deadline and reports the wait every few seconds.
// Errors: kStoreUnreachable, kAuthFailed, kRunDirectory; kRefused when rank 0
// gave up after this process had started, and left. The first attempt also
// fails at once when rank 0 was killed after this process had started; a
// further attempt waits, because rank 0 may be about to be replaced.
absl::StatusOr<std::shared_ptr<Store>> meet(
    const Rendezvous& place, Deadline deadline,
    absl::Duration report_every = absl::Seconds(5));

// Explains the error `lost` of a call on the store that `meet` returned: rank 0
// gave up, and why (kRefused), or rank 0 was killed. Returns `lost` when
// neither is known.
absl::Status why_store_is_gone(const Rendezvous& place, absl::Status lost);

// Leaves a note that rank 0 gave up, for ranks that come later.
void leave_note(const Rendezvous& place, absl::string_view why);
void remove_note(const Rendezvous& place);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_RENDEZVOUS_H_
