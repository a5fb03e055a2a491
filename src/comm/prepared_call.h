// A collective that was checked once and is started many times, each time on
// the buffers that it was checked with, or on others of the same sizes.
//
//   auto call = communicator.prepare_call(kind, arguments, {}, fingerprint);
//   if (!call.ok()) return call.status();
//   absl::StatusOr<Work> work = communicator.start_prepared(**call, {}, {});
//
// Threads: constant. Several threads may start it, in the order of collectives.
// Ownership: the communicator outlives it. Buffers are the caller's.
#ifndef DISTWRAP_SRC_COMM_PREPARED_CALL_H_
#define DISTWRAP_SRC_COMM_PREPARED_CALL_H_

#include "comm/backend_stack.h"
#include "comm/prepared_op.h"
#include "comm/table_plan.h"
#include "distwrap/abi/types.h"
#include "distwrap/tensor_view.h"

#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace distwrap::comm {

class BackendCommunicator;

class PreparedCall {
 public:
  // Where the buffers of a start lie; null: where those of the call did.
  struct Place {
    const void* in = nullptr;
    void* out = nullptr;
  };

  ~PreparedCall();
  PreparedCall(const PreparedCall&) = delete;
  PreparedCall& operator=(const PreparedCall&) = delete;

  const dw_op& op() const { return kept_->op; }
  const PreparedOp& kept() const { return *kept_; }
  absl::string_view label() const { return kept_->label; }
  BackendCommunicator& communicator() const { return owner_; }

  // The operation of one start, without number and times. Why its buffers
  // cannot lie there; null: they can.
  const char* place(Place at, dw_op* op) const;

  // Where starts are given: those whose caller waits, and the others.
  const Runner& waiting() const { return waiting_; }
  const Runner& later() const { return later_; }

 private:
  friend class BackendCommunicator;
  PreparedCall(BackendCommunicator& owner, std::unique_ptr<PreparedOp> kept);

  BackendCommunicator& owner_;
  const std::unique_ptr<PreparedOp> kept_;
  size_t in_bytes_ = 0, out_bytes_ = 0;  // from the first element to the last
  // In the communicator's list; null: starts are submitted.
  TablePlan* waiting_plan_ = nullptr;
  TablePlan* later_plan_ = nullptr;
  Runner waiting_ = {}, later_ = {};
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_PREPARED_CALL_H_
