// What a batch has recorded, and its start.
//
// What is called on the communicator that `on` gives is checked and recorded in
// place of being started. It answers with a Work that says nothing, or with the
// error of the check, which `submit` then gives as well: a batch with a bad
// item starts nothing.
//
// Threads: one at a time. Ownership: communicators outlive the record; arrays
// and labels are copied.
#ifndef DISTWRAP_SRC_COMM_BATCH_RECORD_H_
#define DISTWRAP_SRC_COMM_BATCH_RECORD_H_

#include "comm/communicator.h"

#include <absl/status/statusor.h>

#include <deque>
#include <memory>
#include <vector>

namespace distwrap::comm {

class BatchRecord {
 public:
  // `given` is a group's own communicator, or what `on` of a batch gave for
  // one.
  Communicator& on(Communicator& given) { return on(given, {}); }
  // Likewise, put on a stream, unless that has no `native`.
  Communicator& on(Communicator& given, const Stream& stream);
  // An item that was refused before it reached a communicator.
  absl::Status refuse(const absl::Status& status);
  // Starts what was recorded; one Work for each, in order. An error means that
  // nothing was started, or that the start failed and broke the groups. Empty:
  // no Works. kAlreadySubmitted the second time.
  absl::StatusOr<std::vector<Work>> submit();
  // Items, bad ones among them.
  int size() const { return static_cast<int>(items_.size()); }

 private:
  class Recorder;
  struct Item {
    BackendCommunicator* communicator = nullptr;  // null: a bad one
    PreparedOp prepared;
  };

  absl::Status add(BackendCommunicator& communicator, uint16_t kind,
                   const AnyCall& call, const CallOptions& options,
                   const Stream& stream);
  // Names the last item, and keeps the first error.
  absl::Status refuse_last(const absl::Status& status, absl::string_view label);
  absl::StatusOr<std::vector<Work>> start();
  // No item may write what another writes.
  absl::Status check_outputs() const;

  std::deque<Item> items_;  // which stay where they are
  std::vector<std::shared_ptr<Recorder>> recorders_;
  absl::Status first_error_;
  bool submitted_ = false;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BATCH_RECORD_H_
