// Building a backend's communicator in rounds over a store.
#ifndef DISTWRAP_SRC_COMM_SETUP_H_
#define DISTWRAP_SRC_COMM_SETUP_H_

#include "comm/backend_instance.h"
#include "distwrap/store.h"

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

namespace distwrap::comm {

// Who builds what.
struct SetupPlan {
  std::string group;  // name, for messages
  uint64_t uid = 0;   // equal on all ranks, unique in the job
  uint64_t epoch = 0;
  int rank = 0, size = 1;
  Hints hints = {};
  // In front of all keys; of this communicator and no other.
  std::string keys = "group/";
  // What the ranks must have in common beyond the group: compared in the first
  // round.
  std::string terms = {};
};

// Runs the backend's rounds: each blob it gives is exchanged under keys of the
// group, and those of all ranks are handed back, until it is done. A rank whose
// backend fails tells the others, so that all fail at once; ranks with
// different terms fail with kCallMismatch. Ends by the deadline; kTimedOut then
// names the missing ranks. One thread at a time is in the backend.
absl::StatusOr<dw_comm*> build_communicator(BackendInstance& backend,
                                            Store& store, const SetupPlan& plan,
                                            Deadline deadline);

// For a rank that cannot even begin: the others learn why in their first round.
void refuse_communicator(Store& store, const SetupPlan& plan,
                         const absl::Status& why, Deadline deadline);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_SETUP_H_
