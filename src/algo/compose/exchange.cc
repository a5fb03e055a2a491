// Rounds of messages, and single operations of the backend below.
#include "algo/below/dtypes.h"
#include "algo/compose/comm.h"
#include "algo/compose/execution.h"
#include "algo/decorator.h"

#include <cstring>

namespace distwrap::algo::compose {

void Execution::send(int peer, const void* data, uint64_t bytes) {
  if (bytes != 0)
    messages_.push_back({const_cast<void*>(data), bytes, peer, true});
}

void Execution::receive(int peer, void* data, uint64_t bytes) {
  if (bytes != 0) messages_.push_back({data, bytes, peer, false});
}

// Breaks the group, so that no rank waits for the rest of the operation.
int32_t Execution::failed(int32_t code) {
  if (started_ && !broken_) {
    broken_ = true;
    comm_.break_group(error_);
  }
  return code;
}

int32_t Execution::no_memory() { return failed(algo::no_memory(&error_)); }

int32_t Execution::wait_gate() {
  Backend& backend = comm_.backend();
  backend.wait_settled(gate_);
  if (!gate_.wait_all(Deadline::at_ns(0))) {
    // One message has failed; other ranks may wait for a peer that waits for
    // this rank.
    dw_error why;
    fail(&why, DW_ABORTED, DW_REASON_ABORTED,
         "a part of a composed operation failed");
    comm_.break_group(why);
    broken_ = true;
    backend.wait_all(gate_);
  }
  return gate_.take(&error_);
}

int32_t Execution::run_below(const dw_op& op) {
  dw_op below = op;
  below.struct_size = sizeof below;
  below.deadline_ns = deadline_ns_;
  below.timeout_ns = 0;
  below.seq = step_number();
  below.fingerprint =
      fingerprint_ == 0 || step_ == 0 ? fingerprint_ : fingerprint_ ^ step_;
  next_step();
  int32_t code;
  if (may_block_ && comm_.backend().recipes().caller_waits(op.kind)) {
    below.flags |= DW_FLAG_CALLER_WAITS;
    code = comm_.submit_below(below, nullptr, &error_);
    if (code == DW_DONE) {
      started_ = true;
      return DW_OK;
    }
  } else {
    below.flags &= ~uint32_t{DW_FLAG_CALLER_WAITS};
    gate_.expect();
    code = comm_.submit_below(below, gate_.abi(), &error_);
    if (code == DW_OK || code == DW_DONE) {
      started_ = true;
      if (code == DW_DONE) gate_.end(DW_OK, nullptr);
      code = wait_gate();
      return code == DW_OK ? DW_OK : failed(code);
    }
    gate_.end(DW_OK, nullptr);
  }
  return failed(code);
}

int32_t Execution::exchange() {
  const size_t n = messages_.size();
  if (n == 0) return DW_OK;
  const Recipes& recipes = comm_.backend().recipes();
  const uint64_t element = dtype_bytes(carrier_);
  ops_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const Message& message = messages_[i];
    dw_op& op = ops_[i];
    op = {};
    op.struct_size = sizeof op;
    op.kind = message.sends ? DW_OP_SEND : DW_OP_RECV;
    op.peer = message.peer;
    op.tag = DW_TAG(DW_TAG_CLASS_COMPOSED, step_number() & UINT32_MAX);
    dw_buf& buf = message.sends ? op.in : op.out;
    buf.data = message.data;
    buf.count = static_cast<int64_t>(message.bytes / element);
    buf.dtype = kDTypeOf[carrier_];
    op.stream.device_type = DW_DEVICE_CPU;
    op.deadline_ns = deadline_ns_;
  }
  messages_.clear();
  const bool together = may_block_ && recipes.caller_waits(DW_OP_SEND) &&
                        recipes.caller_waits(DW_OP_RECV);
  int32_t code = DW_AGAIN;
  if (together && n == 1) {
    ops_[0].flags = DW_FLAG_CALLER_WAITS;
    code = comm_.submit_below(ops_[0], nullptr, &error_);
    started_ = started_ || code == DW_DONE;
  } else if (together && comm_.backend().has_groups()) {
    code = exchange_together();
  }
  if (code == DW_AGAIN) code = exchange_apart();
  return code <= DW_OK ? DW_OK : failed(code);
}

// Submits all messages in one call below; DW_AGAIN when that is not possible.
int32_t Execution::exchange_together() {
  Backend& backend = comm_.backend();
  if (!backend.calls().try_lock()) return DW_AGAIN;
  items_.clear();
  for (dw_op& op : ops_) {
    op.flags = DW_FLAG_CALLER_WAITS;
    items_.push_back({comm_.inner(), &op, nullptr});
  }
  const int32_t code = backend.inner().submit_group(
      backend.inner_backend(), items_.data(), items_.size(), &error_);
  backend.calls().unlock();
  if (code == DW_DONE) {
    started_ = true;
    return DW_DONE;
  }
  if (code == DW_UNIMPLEMENTED) {
    backend.forget_groups();
    return DW_AGAIN;
  }
  // Whether it had started is not known.
  if (code != DW_AGAIN) started_ = true;
  return code;
}

// Receives first, so that arriving data have a destination.
int32_t Execution::exchange_apart() {
  int32_t code = DW_OK;
  for (const uint16_t kind : {uint16_t{DW_OP_RECV}, uint16_t{DW_OP_SEND}})
    for (dw_op& op : ops_) {
      if (op.kind != kind || code > DW_OK) continue;
      op.flags = 0;
      gate_.expect();
      code = comm_.submit_below(op, gate_.abi(), &error_);
      if (code == DW_OK || code == DW_DONE) started_ = true;
      if (code != DW_OK) gate_.end(DW_OK, nullptr);
    }
  if (code > DW_OK) {
    const dw_error first = error_;
    failed(code);
    comm_.backend().wait_all(gate_);
    gate_.take(nullptr);
    error_ = first;
    return code;
  }
  return wait_gate();
}

}  // namespace distwrap::algo::compose
