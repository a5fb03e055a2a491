// What stands behind a Group handle.
//
// Threads: constant after construction; communicators guard themselves.
#ifndef DISTWRAP_SRC_GROUP_GROUP_STATE_H_
#define DISTWRAP_SRC_GROUP_GROUP_STATE_H_

#include "comm/communicator.h"
#include "distwrap/group.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::group {

class GroupState {
 public:
  GroupState(std::string name, int rank, std::vector<int> global_ranks,
             std::unique_ptr<comm::BackendCommunicator> communicator,
             Device device)
      : name_(std::move(name)),
        rank_(rank),
        global_ranks_(std::move(global_ranks)),
        communicator_(std::move(communicator)),
        device_type_(device.type) {}

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(global_ranks_.size()); }
  const std::vector<int>& global_ranks() const { return global_ranks_; }

  // For memory of this kind; null when there is none.
  comm::BackendCommunicator* find(Device device) const {
    return device.type == device_type_ ? communicator_.get() : nullptr;
  }
  comm::BackendCommunicator& communicator() const { return *communicator_; }

  // The error of `find` being null.
  absl::Status no_communicator(Device device) const;

 private:
  const std::string name_;
  const int rank_;
  const std::vector<int> global_ranks_;
  const std::unique_ptr<comm::BackendCommunicator> communicator_;
  const int32_t device_type_;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GROUP_STATE_H_
