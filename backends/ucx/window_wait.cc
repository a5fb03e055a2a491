// How a thread waits for a signal: it looks at the word as long as a peer that
// runs may take, then lets others have the processor, then sleeps on a word
// that whoever raises a signal rings when there are sleepers. Who writes over
// UCX cannot do that: the window's thread hears him, and rings.
#include "backend.h"
#include "sdk/fail.h"
#include "sdk/windows.h"
#include "wait.h"
#include "window.h"

#include <algorithm>
#include <cstdio>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace ucx_backend {
namespace {

// A wake-up that is missed by a hair is made up for after this.
constexpr int64_t kShortNapNs = 1'000'000;
constexpr int64_t kLongNapNs = 20'000'000;
// Looks before sleeping, after the others can know of it: longer than a
// processor keeps a write to itself.
constexpr int kLastLooks = 200;

// A signal of a slot; or one of a pair, which is taken as soon as it is there.
class Wanted {
 public:
  Wanted(Window& window, const dw_op& op)
      : op_(op),
        is_pair_(op.signal_index == DW_SIGNAL_PAIR),
        word_(is_pair_ ? window.mine().pairs[op.peer].value
                       : window.mine().slots[op.signal_index].value),
        consumed_(is_pair_ ? &window.consumed[static_cast<size_t>(op.peer)]
                           : nullptr) {}

  bool has_come() {
    const uint64_t found = word_.load(std::memory_order_acquire);
    if (!is_pair_) return dw_signal_holds(found, op_.compare, op_.value);
    uint64_t used = consumed_->load(std::memory_order_relaxed);
    while (used != found)
      if (consumed_->compare_exchange_weak(used, used + 1,
                                           std::memory_order_relaxed))
        return true;
    return false;
  }

  // Why it will never come: who could raise it has ended the window, or one of
  // them is lost. -1: nobody in particular.
  bool is_in_vain(const Window& window, int* who) const {
    *who = op_.peer;
    bool all_closed = window.comm->size > 1;
    for (int rank = 0; rank < window.comm->size; ++rank) {
      if (rank == window.comm->rank || (is_pair_ && rank != op_.peer)) continue;
      const uint32_t closed =
          window.parts[static_cast<size_t>(rank)].closed().load(
              std::memory_order_acquire);
      if (closed == Worker::kLost) {
        *who = rank;
        return true;
      }
      all_closed = all_closed && closed != 0;
    }
    return all_closed && !(is_pair_ && op_.peer == window.comm->rank);
  }

 private:
  const dw_op& op_;
  const bool is_pair_;
  std::atomic<uint64_t>& word_;
  std::atomic<uint64_t>* const consumed_;
};

bool look(Window& window, Wanted& wanted, int times) {
  for (int i = 0; i < times; ++i) {
    if (wanted.has_come()) return true;
    pause();
  }
  if (!window.has_worker) return false;
  {
    Worker::Hold hold(window.worker, std::try_to_lock);
    if (!hold.owns()) return false;
    window.worker.progress();
  }
  return wanted.has_come();
}

// Whether it has come before that.
bool nap(Window& window, Wanted& wanted, int64_t most_ns) {
  WindowHead& bed = *window.mine().head;
  bed.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t bell = bed.bell.load(std::memory_order_seq_cst);
  const bool has_come = look(window, wanted, kLastLooks);
  if (window.thread.started()) window.thread.take_over();
  if (!has_come && window.check(nullptr) == DW_OK) {
    const timespec span = {static_cast<time_t>(most_ns / 1'000'000'000),
                           static_cast<long>(most_ns % 1'000'000'000)};
    syscall(SYS_futex, &bed.bell, FUTEX_WAIT, bell, &span, nullptr, 0);
  }
  bed.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return has_come;
}

int32_t wait_long(Window& window, Wanted& wanted, const dw_op& op,
                  dw_error* error) {
  const Comm& comm = *window.comm;
  const dw_host_api& host = *comm.host;
  Limit limit(op.deadline_ns, op.timeout_ns);
  const int64_t began = host.now_ns(host.self);
  const int64_t end = limit.at(began);
  int64_t nap_ns = kShortNapNs;
  for (;;) {
    if (look(window, wanted, kLooksPerTurn)) return DW_DONE;
    if (int32_t code = window.check(error)) return code;
    if (int who; wanted.is_in_vain(window, &who)) {
      if (wanted.has_come()) return DW_DONE;
      return dw_fail(error, DW_UNAVAILABLE, DW_REASON_PEER_LOST, who, 0,
                     "ucx: who could signal is lost or has ended the window");
    }
    const int64_t now = host.now_ns(host.self);
    if (end != 0 && now >= end) {
      if (wanted.has_come()) return DW_DONE;
      return dw_fail(error, DW_DEADLINE_EXCEEDED, DW_REASON_TIMED_OUT, op.peer,
                     0, "ucx: the signal did not come in time");
    }
    if (!comm.crowded && now - began < kSpinNs) continue;
    if (now - began < kAwakeNs && comm.yielding.pays()) {
      sched_yield();
      comm.yielding.took(host.now_ns(host.self) - now);
      continue;
    }
    if (nap(window, wanted, end == 0 ? nap_ns : std::min(nap_ns, end - now)))
      return DW_DONE;
    nap_ns = std::min(nap_ns * 2, kLongNapNs);
  }
}

}  // namespace

int32_t wait_signal(Window& window, const dw_op& op, dw_error* error) {
  if (op.signal_index == DW_SIGNAL_PAIR) {
    if (op.peer < 0 || op.peer >= window.comm->size)
      return dw_invalid(error, "ucx: there is no such rank");
  } else if (!has_slot(window, op) || op.compare < DW_COMPARE_EQ ||
             op.compare > DW_COMPARE_GE) {
    return dw_invalid(error, "ucx: there is no such signal or comparison");
  }
  Wanted wanted(window, op);
  for (int i = 0; i < 200; ++i) {
    if (wanted.has_come()) return DW_DONE;
    pause();
  }
  if ((op.flags & DW_FLAG_CALLER_WAITS) == 0)
    return dw_unsupported(error, "ucx: a wait for a signal holds its caller");
  return wait_long(window, wanted, op, error);
}

}  // namespace ucx_backend
