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
};

// Runs the backend's rounds: each blob it gives is exchanged under keys of the
// group, and those of all ranks are handed back, until it is done. A rank whose
// backend fails tells the others, so that all fail at once. Ends by the
// deadline; kTimedOut then names the missing ranks.
absl::StatusOr<dw_comm*> build_communicator(BackendInstance& backend,
                                            Store& store, const SetupPlan& plan,
                                            Deadline deadline);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_SETUP_H_
