// Waiting for a signal of a window, as window_ops.h runs it: a rank that can
// store to the word rings after it when there are sleepers.
//
// Threads: any. Ownership: nothing is kept beyond the call. Errors: the failure
// of the window; DW_REASON_PEER_LOST when all ranks that could signal have
// ended the window or one is lost; DW_REASON_TIMED_OUT.
#ifndef DISTWRAP_PLUGINS_HOSTMEM_WINDOW_WAIT_H_
#define DISTWRAP_PLUGINS_HOSTMEM_WINDOW_WAIT_H_

#include "hostmem/wait.h"
#include "hostmem/window.h"
#include "sdk/fail.h"
#include "sdk/windows.h"

#include <algorithm>

namespace dw_hostmem {

// Precondition: the window has the operation's signal.
template <class Window>
class SignalWait final : public Wait {
 public:
  SignalWait(Window& window, const dw_op& op)
      : Wait(window.comm->host, &window.comm->yielding,
             std::min(window.comm->looks, kLooksPerTurn)),
        window_(window),
        op_(op),
        mine_(window.parts[static_cast<size_t>(window.comm->rank)]),
        is_pair_(op.signal_index == DW_SIGNAL_PAIR),
        word_(mine_.signal(op.signal_index, op.peer)) {}

  // A signal of a slot, or one of a pair, which is consumed as soon as it
  // comes.
  bool has_come() {
    if (has_consumed_) return true;
    const uint64_t found = word_.load(std::memory_order_acquire);
    if (!is_pair_) return dw_signal_holds(found, op_.compare, op_.value);
    std::atomic<uint64_t>& consumed =
        window_.consumed[static_cast<size_t>(op_.peer)];
    uint64_t used = consumed.load(std::memory_order_relaxed);
    while (used != found)
      if (consumed.compare_exchange_weak(used, used + 1,
                                         std::memory_order_relaxed))
        return has_consumed_ = true;
    return false;
  }
  int32_t run(dw_error* error) {
    Limit limit(op_.deadline_ns, op_.timeout_ns);
    return Wait::run({mine_.head->sleepers, mine_.head->bell}, limit, error);
  }

 private:
  bool look(int times) override {
    for (int i = 0; i < times; ++i) {
      if (has_come()) return true;
      pause();
    }
    return window_.drive() && has_come();
  }
  int32_t check(dw_error* error) override {
    if (int32_t code = window_.check(error)) return code;
    int who = op_.peer;
    if (!is_in_vain(&who) || has_come()) return DW_OK;
    return fail(
        window_.backend, error, DW_UNAVAILABLE, DW_REASON_PEER_LOST, who,
        "the ranks that could signal are lost or have ended the window");
  }
  int32_t look_for_lost(dw_error* error) override {
    return window_.look_for_lost(error);
  }
  int32_t fail_late(dw_error* error) override {
    return fail(window_.backend, error, DW_DEADLINE_EXCEEDED,
                DW_REASON_TIMED_OUT, op_.peer,
                "the signal did not come in time");
  }
  bool gives_way() override { return window_.comm->oversubscribed; }
  void before_sleep() override { window_.before_sleep(); }

  // Whether the signal can never come: all ranks that could raise it have ended
  // the window, or one of them is lost, which becomes `*who`.
  bool is_in_vain(int* who) const {
    const int self = window_.comm->rank, size = window_.comm->size;
    if (size == 1 || (is_pair_ && op_.peer == self)) return false;
    bool all_closed = true;
    for (int rank = 0; rank < size; ++rank) {
      if (rank == self || (is_pair_ && rank != op_.peer)) continue;
      const uint32_t closed =
          window_.parts[static_cast<size_t>(rank)].closed().load(
              std::memory_order_acquire);
      if (closed == kLost) {
        *who = rank;
        return true;
      }
      all_closed = all_closed && closed != 0;
    }
    return all_closed;
  }

  Window& window_;
  const dw_op& op_;
  const WindowPart& mine_;
  const bool is_pair_;
  std::atomic<uint64_t>& word_;
  bool has_consumed_ = false;
};

template <class Window>
int32_t wait_signal(Window& window, const dw_op& op, dw_error* error) {
  if (op.signal_index == DW_SIGNAL_PAIR) {
    if (op.peer < 0 || op.peer >= window.comm->size)
      return dw_invalid(error, "there is no such rank");
  } else if (!window.has_signal(op) || op.compare < DW_COMPARE_EQ ||
             op.compare > DW_COMPARE_GE) {
    return dw_invalid(error, "there is no such signal or comparison");
  }
  SignalWait wait(window, op);
  for (int i = 0; i < 200; ++i) {
    if (wait.has_come()) return DW_DONE;
    pause();
  }
  if ((op.flags & DW_FLAG_CALLER_WAITS) == 0)
    return dw_unsupported(error, "a wait for a signal holds its caller");
  const int32_t code = wait.run(error);
  return code == DW_OK ? int32_t{DW_DONE} : code;
}

}  // namespace dw_hostmem

#endif  // DISTWRAP_PLUGINS_HOSTMEM_WINDOW_WAIT_H_
