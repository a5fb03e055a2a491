// Operations on a window, all of which end inside their call.
#include "backend.h"
#include "copy.h"
#include "sdk/atomics.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"
#include "sdk/windows.h"
#include "wait.h"
#include "window.h"

#include <cstdio>

namespace shm_backend {
namespace {

uint64_t bytes_of(const dw_buf& buffer) {
  return static_cast<uint64_t>(buffer.count) *
         (static_cast<uint64_t>(buffer.dtype.bits) / 8);
}

int32_t fail_closed(const WindowPart& part, int peer, dw_error* error) {
  if (part.head->closed.load(std::memory_order_seq_cst) == 0) return DW_OK;
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_STALE_EPOCH, peer, 0,
                 "shm: the target has ended the window");
}

// While it lives this rank may be in memory that the owner brought.
class Inside {
 public:
  Inside(const WindowPart& part, int rank) : count_(part.writers[rank].value) {
    count_.fetch_add(1, std::memory_order_seq_cst);
  }
  ~Inside() { count_.fetch_sub(1, std::memory_order_seq_cst); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::atomic<uint64_t>& count_;
};

// To or from memory that cannot be mapped. Ranks of one process move it the
// same way: an address that is not there any more is an error and no crash.
[[gnu::noinline]] int32_t move_by_kernel(const Comm* comm,
                                         const WindowPart& part,
                                         const dw_op& op, uint64_t bytes,
                                         dw_error* error) {
  if (bytes == 0) return fail_closed(part, op.peer, error);
  const Inside inside(part, comm->rank);
  if (int32_t code = fail_closed(part, op.peer, error)) return code;
  const uint64_t at = part.address + op.window_offset;
  if (op.peer == comm->rank) {
    auto* const own = reinterpret_cast<char*>(static_cast<uintptr_t>(at));
    if (op.kind == DW_OP_PUT)
      __builtin_memmove(own, op.in.data, bytes);
    else
      __builtin_memmove(op.out.data, own, bytes);
    return DW_OK;
  }
  const Reach::Got got = op.kind == DW_OP_PUT
                             ? part.reach.write(at, op.in.data, bytes)
                             : part.reach.read(op.out.data, at, bytes);
  if (got == Reach::Got::kAll) return DW_OK;
  if (got == Reach::Got::kGone)
    return dw_fail(error, DW_UNAVAILABLE, DW_REASON_PEER_LOST, op.peer, 0,
                   "shm: the target has died: its process ended");
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_BACKEND_FAILED,
                 op.peer, 0,
                 "shm: the target's memory is not there any more: it was "
                 "freed before the window's end");
}

// What the signals of a target are at; NULL when there is no such slot.
std::atomic<uint64_t>* slot_of(const Window& window, const WindowPart& part,
                               const dw_op& op, int from) {
  if (op.signal_index == DW_SIGNAL_PAIR) return &part.pairs[from].value;
  return op.signal_index < window.signals ? &part.slots[op.signal_index].value
                                          : nullptr;
}

// After whatever this thread has written before. Whoever sleeps has said so
// long ago, or looks again (README: who waits).
int32_t raise(const Window& window, const WindowPart& part, const dw_op& op,
              dw_error* error) {
  std::atomic<uint64_t>* const slot =
      slot_of(window, part, op, window.comm->rank);
  if (slot == nullptr) return dw_invalid(error, "shm: there is no such signal");
  if (op.signal_index == DW_SIGNAL_PAIR)
    slot->fetch_add(1, std::memory_order_release);
  else if (op.signal_how == DW_SIGNAL_ADD)
    slot->fetch_add(op.value, std::memory_order_release);
  else if (op.signal_how == DW_SIGNAL_SET)
    slot->store(op.value, std::memory_order_release);
  else
    return dw_invalid(error, "shm: a signal sets or adds");
  if (part.head->sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    ring(part.head->bell);
  return DW_OK;
}

// All others have left: nobody will signal.
bool all_left(const Window& window) {
  for (int rank = 0; rank < window.comm->size; ++rank)
    if (rank != window.comm->rank &&
        window.comm->room.state(rank) == State::kOpen)
      return false;
  return window.comm->size > 1;
}

class SlotWait final : public Condition {
 public:
  SlotWait(const Window& window, std::atomic<uint64_t>& slot, const dw_op& op)
      : window_(window), slot_(slot), op_(op) {}
  bool holds() override {
    return dw_signal_holds(slot_.load(std::memory_order_acquire), op_.compare,
                           op_.value);
  }
  bool awaits(int /*rank*/) override { return all_left(window_); }

 private:
  const Window& window_;
  std::atomic<uint64_t>& slot_;
  const dw_op& op_;
};

// One signal of a pair, which is taken as soon as it is there.
class PairWait final : public Condition {
 public:
  PairWait(std::atomic<uint64_t>& counter, std::atomic<uint64_t>& consumed,
           int peer)
      : counter_(counter), consumed_(consumed), peer_(peer) {}
  bool holds() override {
    if (taken_) return true;
    uint64_t used = consumed_.load(std::memory_order_relaxed);
    while (used != counter_.load(std::memory_order_acquire))
      if (consumed_.compare_exchange_weak(used, used + 1,
                                          std::memory_order_relaxed))
        return taken_ = true;
    return false;
  }
  bool awaits(int rank) override { return rank == peer_; }

 private:
  std::atomic<uint64_t>& counter_;
  std::atomic<uint64_t>& consumed_;
  const int peer_;
  bool taken_ = false;
};

int32_t wait_for(Window& window, Condition& condition, const dw_op& op,
                 dw_error* error) {
  Comm* const comm = window.comm;
  for (int i = 0; i < 200; ++i) {
    if (condition.holds()) return DW_DONE;
    pause();
  }
  if ((op.flags & DW_FLAG_CALLER_WAITS) == 0)
    return dw_unsupported(error, "shm: a wait for a signal holds its caller");
  WindowHead& head = *window.parts[static_cast<size_t>(comm->rank)].head;
  Limit limit(op.deadline_ns, op.timeout_ns);
  const int32_t code =
      wait_apart(comm, condition, limit, {head.sleepers, head.bell}, error);
  if (code == DW_OK) return DW_DONE;
  if (code == DW_DEADLINE_EXCEEDED)
    return dw_fail(error, code, DW_REASON_TIMED_OUT, op.peer, 0,
                   "shm: the signal did not come in time");
  return code;
}

int32_t wait_signal(Window& window, const dw_op& op, dw_error* error) {
  const WindowPart& mine = window.parts[static_cast<size_t>(window.comm->rank)];
  if (op.signal_index == DW_SIGNAL_PAIR) {
    if (op.peer < 0 || op.peer >= window.comm->size)
      return dw_invalid(error, "shm: there is no such rank");
    const auto peer = static_cast<size_t>(op.peer);
    PairWait wait(mine.pairs[peer].value, window.consumed[peer], op.peer);
    return wait_for(window, wait, op, error);
  }
  std::atomic<uint64_t>* const slot =
      slot_of(window, mine, op, window.comm->rank);
  if (slot == nullptr || op.compare < DW_COMPARE_EQ ||
      op.compare > DW_COMPARE_GE)
    return dw_invalid(error, "shm: there is no such signal or comparison");
  SlotWait wait(window, *slot, op);
  return wait_for(window, wait, op, error);
}

int32_t fence(Window& window) {
  window.fence.fetch_add(0, std::memory_order_seq_cst);
  return DW_DONE;
}

int32_t done(int32_t code) { return code == DW_OK ? int32_t{DW_DONE} : code; }

// Of one element.
uint64_t span_of(const dw_op& op) {
  switch (op.kind) {
    case DW_OP_PUT:
    case DW_OP_ACCUMULATE:
    case DW_OP_FETCH_OP:
      return bytes_of(op.in);
    default:
      return bytes_of(op.out);
  }
}

int32_t move_mapped(const Comm* comm, const WindowPart& part, const dw_op& op,
                    uint64_t bytes, dw_error* error) {
  char* const at = part.data + op.window_offset;
  if (op.kind == DW_OP_PUT)
    copy(at, op.in.data, bytes);
  else if (op.kind == DW_OP_GET)
    copy(op.out.data, at, bytes);
  else
    return dw_sdk::run_atomic(*comm->host, op, at, error);
  return DW_OK;
}

int32_t move(const Window& window, const WindowPart& part, const dw_op& op,
             dw_error* error) {
  const uint64_t bytes = span_of(op);
  if (op.window_offset > part.bytes || bytes > part.bytes - op.window_offset)
    return dw_invalid(error, "shm: outside of the target's part");
  if (part.data == nullptr) [[unlikely]] {
    if (op.kind != DW_OP_PUT && op.kind != DW_OP_GET)
      return dw_unsupported(error,
                            "shm: atomics need memory of the window or of "
                            "get_mem_allocator; the target brought its own");
    return move_by_kernel(window.comm, part, op, bytes, error);
  }
  if (part.address != 0) {
    const Inside inside(part, window.comm->rank);
    if (int32_t code = fail_closed(part, op.peer, error)) return code;
    return move_mapped(window.comm, part, op, bytes, error);
  }
  if (part.head->closed.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return fail_closed(part, op.peer, error);
  return move_mapped(window.comm, part, op, bytes, error);
}

int32_t check_op(const Comm* comm, const dw_op& op, dw_error* error) {
  const uint32_t known =
      DW_FLAG_CALLER_WAITS |
      (op.kind == DW_OP_PUT ? uint32_t{DW_FLAG_WITH_SIGNAL} : 0);
  if ((op.flags & ~known) != 0)
    return dw_unsupported(error, "shm: a flag is not supported");
  if (op.next != nullptr && dw_check_extensions(op.next) != DW_OK)
    return dw_unsupported(error, "shm: no extension is supported");
  if (op.window == nullptr || Window::of(op.window)->comm != comm)
    return dw_invalid(error, "shm: the window is of another communicator");
  return DW_OK;
}

}  // namespace

int32_t submit_to_window(Comm* comm, const dw_op* given, dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the operation has a size or a field that is not known");
  if (int32_t code = check_op(comm, *op, error)) return code;
  if (int32_t code = comm->failure.check(error)) return code;
  Window& window = *Window::of(op->window);
  if (op->kind == DW_OP_WAIT_SIGNAL) return wait_signal(window, *op, error);
  if (op->kind == DW_OP_FLUSH || op->kind == DW_OP_FENCE) return fence(window);
  if (op->peer < 0 || op->peer >= comm->size)
    return dw_invalid(error, "shm: there is no such rank");
  const WindowPart& part = window.parts[static_cast<size_t>(op->peer)];
  if (op->kind == DW_OP_SIGNAL) {
    if (int32_t code = fail_closed(part, op->peer, error)) return code;
    return done(raise(window, part, *op, error));
  }
  if ((op->flags & DW_FLAG_WITH_SIGNAL) != 0 &&
      slot_of(window, part, *op, comm->rank) == nullptr)
    return dw_invalid(error, "shm: there is no such signal");
  int32_t code = move(window, part, *op, error);
  if (code == DW_OK && (op->flags & DW_FLAG_WITH_SIGNAL) != 0)
    code = raise(window, part, *op, error);
  return done(code);
}

int32_t query_window(const Comm* comm, const dw_op* given, dw_error* error) {
  dw_op space;
  const dw_op* op;
  if (int32_t code = dw_read_op(&space, &op, given))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the operation has a size or a field that is not known");
  return check_op(comm, *op, error);
}

}  // namespace shm_backend
