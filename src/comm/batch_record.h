// The operations that a batch has recorded, and their start.
//
// A call on the communicator that `on` returns is checked and recorded instead
// of being started. It returns a Work without an operation, or the error of the
// check. `submit` returns that error too: a batch with a bad item starts
// nothing.
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
  Communicator& on(Communicator& given);
  // With the operations put on a stream that has a `native`.
  Communicator& on(BackendCommunicator& communicator, const Stream& stream);
  // An item that was refused before it reached a communicator.
  absl::Status refuse(const absl::Status& status);
  // Starts the recorded operations and returns one Work for each, in order. An
  // error means that nothing was started, or that the start failed and broke
  // the groups. An empty batch returns no Works. kAlreadySubmitted the second
  // time.
  absl::StatusOr<std::vector<Work>> submit();
  // Prepares the only recorded item, a collective, for many starts; collective.
  // The ranks compare it, and all of them get an error where one cannot prepare
  // it or it differs. kAlreadySubmitted as with `submit`.
  absl::StatusOr<std::unique_ptr<PreparedCall>> prepare();
  // The number of items, including refused ones.
  int size() const { return static_cast<int>(items_.size()); }

 private:
  class Recorder;
  struct Item {
    BackendCommunicator* communicator = nullptr;  // null: none was found
    PreparedOp prepared;
  };

  absl::Status add(BackendCommunicator& communicator, uint16_t kind,
                   const AnyCall& call, const CallOptions& options,
                   const Stream& stream);
  // Names the last item, and keeps the first error.
  absl::Status refuse_last(const absl::Status& status, absl::string_view label);
  // There was no memory for an item: the batch is not submitted without it.
  absl::Status lose_item(const absl::Status& status);
  static absl::StatusOr<std::vector<Work>> start(
      absl::Span<const BackendCommunicator::BatchItem> items);
  // No item may write what another writes.
  absl::Status check_outputs() const;

  std::deque<Item> items_;  // a deque, since items must not move
  std::vector<std::shared_ptr<Recorder>> recorders_;
  absl::Status first_error_;
  bool submitted_ = false;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BATCH_RECORD_H_
