// The state of a PreparedOperation: the checked call, and its group.
#ifndef DISTWRAP_SRC_FACADE_PREPARED_STATE_H_
#define DISTWRAP_SRC_FACADE_PREPARED_STATE_H_

#include "comm/prepared_call.h"
#include "group/group_state.h"

#include <memory>
#include <utility>

namespace distwrap::facade {

class PreparedState {
 public:
  // Without a group the caller keeps the communicator.
  PreparedState(std::shared_ptr<group::GroupState> group,
                std::unique_ptr<comm::PreparedCall> call)
      : group_(std::move(group)), call_(std::move(call)) {}
  const comm::PreparedCall& call() const { return *call_; }

 private:
  const std::shared_ptr<group::GroupState> group_;  // outlives the call
  const std::unique_ptr<comm::PreparedCall> call_;
};

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_PREPARED_STATE_H_
