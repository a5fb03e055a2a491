// Who this process is and where it meets the others: what was given first, then
// what the launcher told.
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
#include "store/launch_info.h"

#include <absl/status/statusor.h>

#include <memory>
#include <string>

namespace distwrap::store {

// What a program gave; negative or empty is not given.
struct InitRequest {
  int rank = -1, world_size = -1;
  std::string init_method = {};
  bool has_store = false;
};

struct Rendezvous {
  int rank = -1, world_size = -1;
  // "unix:/path"; "" when a store was given or none is needed.
  std::string address = {};
  // The socket that rank 0's process serves; "" when somebody else serves.
  std::string hosted_path = {};
  // Stands in front of keys; "" when the job is not known.
  std::string job = {};
};

// Errors: those of find_launch and parse_init_method; kInvalidArgument for a
// rank outside of the world; kStoreConflict for a store and an init method;
// kLaunchMissing when nothing tells where to meet; kUnsupported for several
// hosts. Logs a warning about launchers that tell something else and are not
// used.
absl::StatusOr<Rendezvous> find_rendezvous(
    const InitRequest& request, const base::Environment& environment);

// The store at the place's address, served first if it is this rank that does.
// Waits for it to the deadline and says so every few seconds. Errors:
// kStoreUnreachable, kAuthFailed, kRunDirectory; kRefused when rank 0 gave up
// after this process had started, and left. One that was killed after that is
// not waited for either, but in a further try: it may be about to be replaced.
absl::StatusOr<std::shared_ptr<Store>> meet(
    const Rendezvous& place, Deadline deadline,
    absl::Duration report_every = absl::Seconds(5));

// For a rank whose call on the store of `meet` ended with `lost`: that rank 0
// gave up, and why (kRefused), or that it was killed, where either is known;
// else `lost`.
absl::Status why_store_is_gone(const Rendezvous& place, absl::Status lost);

// Rank 0 gave up waiting: for those that find nobody when they come.
void leave_note(const Rendezvous& place, absl::string_view why);
void remove_note(const Rendezvous& place);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_RENDEZVOUS_H_
