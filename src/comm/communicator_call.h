// trace, submit, conclude: the steps of an operation whose caller waits,
// inlined into the calls of communicators and windows.
#ifndef DISTWRAP_SRC_COMM_COMMUNICATOR_CALL_H_
#define DISTWRAP_SRC_COMM_COMMUNICATOR_CALL_H_

#include "comm/communicator.h"

#include <utility>

namespace distwrap::comm {

// Writes which operation this is, and that its thread waits.
template <uint16_t kKind>
[[gnu::always_inline]] inline void BackendCommunicator::write_trace(
    const dw_op& op, Recorder::Numbers& numbers, CallGuard::Slot* slot,
    CallTrace* trace) {
  const uint16_t kind = kKind == kAnyKind ? op.kind : kKind;
  trace->begin(kind, numbers);
  // The thread has nothing left to do but wait.
  if (slot != nullptr) say_waits(*slot, op_shape(kind).collective());
}

// Moving so few elements takes no longer than reading a clock.
inline bool moves_little(const dw_op& op) {
  constexpr uint64_t kFew = 512;  // elements
  return static_cast<uint64_t>(op.in.count) <= kFew &&
         static_cast<uint64_t>(op.out.count) <= kFew;
}

// A trace that is written before the backend has the operation. The backend can
// reach only `said`, so the other members stay in registers.
template <uint16_t kKind>
class BackendCommunicator::PromptTrace {
 public:
  [[gnu::always_inline]] PromptTrace(BackendCommunicator& owner,
                                     const Entry& entry, dw_op& op,
                                     absl::string_view label, WaitsMark& said)
      : op_(op), said_(said), trace_(entry.trace, op, label) {
    if (entry.runner.says_waits()) op.trace = said.abi();
    owner.write_trace<kKind>(op, entry.numbers, entry.slot, &trace_);
  }
  [[gnu::always_inline]] void returned(uint16_t outcome, bool quick) {
    trace_.returned(outcome, outcome == Recorder::kDone && quick &&
                                 !said_.waited() && moves_little(op_));
  }

 private:
  const dw_op& op_;
  const WaitsMark& said_;
  CallTrace trace_;
};

// A trace that is written when the backend says that the call is under way. The
// backend can reach it, so it refers to no other object of the call: those stay
// in registers.
template <uint16_t kKind>
class BackendCommunicator::LaterTrace final : public DeferredTrace {
 public:
  LaterTrace(BackendCommunicator& owner, CallGuard::Slot& slot, dw_op& op,
             absl::string_view label)
      : owner_(owner), slot_(slot), op_(op), trace_(owner.trace_, op, label) {
    op.trace = abi();
  }
  [[gnu::always_inline]] void returned(uint16_t outcome, bool quick) {
    if (!begun_) write_now();
    trace_.returned(outcome, outcome == Recorder::kDone && quick && !waited() &&
                                 moves_little(op_));
  }

 private:
  void write() override { write_now(); }
  [[gnu::always_inline]] void write_now() {
    owner_.write_trace<kKind>(op_, owner_.record_numbers_, &slot_, &trace_);
  }

  BackendCommunicator& owner_;
  CallGuard::Slot& slot_;
  const dw_op& op_;
  CallTrace trace_;
};

// The trace of an operation that leaves none.
class BackendCommunicator::NoTrace {
 public:
  void returned(uint16_t /*outcome*/, bool /*quick*/) {}
};

template <uint16_t kKind>
[[gnu::always_inline]] inline absl::StatusOr<Work>
BackendCommunicator::wait_for(dw_op& op, const CallOptions& options,
                              const Entry& entry) {
  WaitsMark said;
  PromptTrace<kKind> trace(*this, entry, op, options.label, said);
  return wait_with(trace, op, options, entry);
}

template <class Trace>
[[gnu::always_inline]] inline absl::StatusOr<Work>
BackendCommunicator::wait_with(Trace& trace, dw_op& op,
                               const CallOptions& options, const Entry& entry) {
  const Runner& by = entry.runner;
  dw_error error;
  clear(&error);
  int32_t code = DW_UNKNOWN;
  if (!by.host_watches()) [[likely]] {
    code = by.submit(by.comm, &op, nullptr, &error);
    if (code == DW_DONE) [[likely]] {
      trace.returned(Recorder::kDone, entry.quick);
      return Work();
    }
  }
  absl::StatusOr<Work> result =
      by.host_watches() ? wait_watched(op, options, entry)
                        : wait_again(op, code, &error, options, entry);
  trace.returned(result.ok() ? Recorder::kDone
                             : Recorder::failed(error_reason(result.status())),
                 entry.quick);
  return result;
}

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_COMMUNICATOR_CALL_H_
