// How the ranks of a host get the memory that they share: over a Unix socket in
// the abstract namespace, which needs no file and exists on one host only.
//
// Every rank opens a handover before it tells the others its name. The lowest
// rank of a host then serves its own, beside its other work; the others close
// theirs and ask. A rank that asks belongs to the same user and sends the
// random number that it has drawn for this job.
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

// A rank of this host.
struct HostMember {
  int rank = 0;        // in the world
  uint64_t token = 0;  // drawn at random
};

class DescriptorHandover {
 public:
  // Uses two descriptors. Errors: kResourceLimit, kRunDirectory when the system
  // lets no process listen.
  static absl::StatusOr<DescriptorHandover> open();
  // Random; at most 16 bytes.
  const std::string& name() const { return name_; }
  // Gives `memory` to the guests that have connected and removes them from the
  // list. Does not block.
  void serve(int memory, std::vector<HostMember>* guests);

 private:
  DescriptorHandover(base::Descriptor listener, base::Descriptor spare,
                     std::string name)
      : listener_(std::move(listener)),
        spare_(std::move(spare)),
        name_(std::move(name)) {}
  base::Descriptor next_caller();

  base::Descriptor listener_;
  // A reserve descriptor: it is closed to accept a caller when no descriptor
  // number is free, so that no caller waits in vain, as in servers of many
  // connections.
  base::Descriptor spare_;
  std::string name_;
  std::vector<base::Descriptor>
      callers_;  // callers that have not said who they are
};

// Asks the handover of that name for the memory. Errors: kPeerLost when no
// process serves it, and kTimedOut, which both name `host`, the serving rank;
// kResourceLimit.
absl::StatusOr<base::Descriptor> ask_at(absl::string_view name, int host,
                                        const HostMember& me,
                                        Deadline deadline);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_HANDOVER_H_
