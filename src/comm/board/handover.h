// How the ranks of a host get the memory that they share: over a Unix socket in
// the abstract namespace, which needs no file and exists on one host only.
//
// Every rank opens a door before it tells the others its name; the lowest rank
// of a host then serves, beside whatever it goes on with, the others close
// theirs and ask. Who asks is of the same user and shows the number that its
// rank has drawn for this job.
// Threads: one at a time.
#ifndef DISTWRAP_SRC_COMM_BOARD_HANDOVER_H_
#define DISTWRAP_SRC_COMM_BOARD_HANDOVER_H_

#include "base/descriptor.h"
#include "distwrap/deadline.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::comm {

// Where such a socket can be reached: the boot of the host and the network
// namespace. Empty when it cannot be told.
std::string host_identity();

// A rank of this host.
struct HostMember {
  int rank = 0;        // of the world
  uint64_t token = 0;  // drawn at random
};

class Door {
 public:
  // Takes two descriptors. Errors: kResourceLimit, kRunDirectory when the
  // system lets nobody listen.
  static absl::StatusOr<Door> open();
  // Random; at most 16 bytes.
  const std::string& name() const { return name_; }
  // Gives `memory` to those of the guests that have come, and takes them off
  // the list. Does not block.
  void serve(int memory, std::vector<HostMember>* guests);

 private:
  Door(base::Descriptor listener, base::Descriptor spare, std::string name)
      : listener_(std::move(listener)),
        spare_(std::move(spare)),
        name_(std::move(name)) {}
  base::Descriptor next_caller();

  base::Descriptor listener_;
  // Whose place a caller gets when all others are taken, so that nobody waits
  // in vain; as servers of many connections do it.
  base::Descriptor spare_;
  std::string name_;
  std::vector<base::Descriptor> callers_;  // that have not said who they are
};

// From the door of that name. Errors: kPeerLost when nobody is behind it,
// kTimedOut; both name `host`, the rank that serves. kResourceLimit.
absl::StatusOr<base::Descriptor> ask_at(absl::string_view name, int host,
                                        const HostMember& me,
                                        Deadline deadline);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_HANDOVER_H_
