// The state behind a MoePending.
#ifndef DISTWRAP_SRC_MOE_PENDING_H_
#define DISTWRAP_SRC_MOE_PENDING_H_

#include "moe/call.h"

#include <memory>

namespace distwrap::moe {

class PendingState {
 public:
  PendingState(std::unique_ptr<MoeCall> call, Work started)
      : call_(std::move(call)), started_(std::move(started)) {}
  ~PendingState();

  absl::Status finish();

 private:
  std::unique_ptr<MoeCall> call_;  // null: finished
  Work started_;
};

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_PENDING_H_
