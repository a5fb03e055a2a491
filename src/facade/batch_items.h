// The items that a Batch holds.
#ifndef DISTWRAP_SRC_FACADE_BATCH_ITEMS_H_
#define DISTWRAP_SRC_FACADE_BATCH_ITEMS_H_

#include "comm/batch_record.h"
#include "distwrap/op_options.h"
#include "distwrap/prepared_operation.h"
#include "group/group_state.h"

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <vector>

namespace distwrap::facade {

class BatchItems {
 public:
  // The communicator that records the next item; null with a status when there
  // is none. `device` is nullopt for a call without a tensor.
  Communicator* open(const char* call, const OpOptions& options,
                     std::optional<Device> device, absl::Status* status);
  // Called after the call of item `number`. A call that was refused before it
  // was recorded becomes a bad item.
  int keep(int number, const absl::Status& status);

  Communicator& on(Communicator& communicator) {
    return record_.on(communicator);
  }
  absl::StatusOr<Work> submit();
  absl::StatusOr<PreparedOperation> prepare();
  const std::vector<Work>& works() const { return works_; }
  absl::StatusOr<Work> item(int i) const;
  int size() const { return record_.size(); }

 private:
  comm::BatchRecord record_;
  // These references keep the items' communicators alive.
  std::vector<std::shared_ptr<group::GroupState>> groups_;
  std::vector<Work> works_;
  bool submitted_ = false;
};

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_BATCH_ITEMS_H_
