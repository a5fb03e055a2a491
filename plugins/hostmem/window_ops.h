// One-sided operations on mapped memory: loads, stores, the processor's atomics
// and signals. Templates over the backend's Window, so that nothing on the way
// of a mapped operation is called through a pointer.
//
// A Window derives from WindowWords and has `comm` (with host, rank, size,
// looks, oversubscribed and yielding), `parts` (by rank, of a type that derives
// from WindowPart), `of` a dw_window, and these functions, which return DW_OK
// or an error unless it is said otherwise:
//
//   check(error)                        the failure of communicator or window
//   move_far(part, op, bytes, work, error)  an access to data that are not
//                                       mapped: DW_DONE, or DW_OK when `work`
//                                       is completed later
//   order_far(op, error)                a flush or fence of such accesses
//   before_signal(part, op, error)      waits for such accesses to this part
//   tell(part, op, error)               a signal where no words are mapped
//   drive()                             drives such accesses; false: does not
//   before_sleep()                      leaves driving to another thread
//   look_for_lost(error)                a rank that has died or given up
//
// Threads: any. Ownership: nothing is kept beyond the call. Errors: those of
// the ABI's operations; kLost and closed targets are errors of the target.
#ifndef DISTWRAP_PLUGINS_HOSTMEM_WINDOW_OPS_H_
#define DISTWRAP_PLUGINS_HOSTMEM_WINDOW_OPS_H_

#include "hostmem/copy.h"
#include "hostmem/window_wait.h"
#include "sdk/atomics.h"
#include "sdk/read_op.h"

#include <sched.h>

namespace dw_hostmem {

// The bytes that an operation moves from or to the target.
inline uint64_t bytes_of(const dw_op& op) {
  const bool by_out = op.kind == DW_OP_GET || op.kind == DW_OP_COMPARE_SWAP;
  const dw_buf& buffer = by_out ? op.out : op.in;
  return static_cast<uint64_t>(buffer.count) *
         (static_cast<uint64_t>(buffer.dtype.bits) / 8);
}

inline int32_t done(int32_t code) {
  return code == DW_OK ? int32_t{DW_DONE} : code;
}

// Raises a signal after everything that this thread has written before.
template <class Window, class RankPart>
int32_t raise(Window& window, RankPart& part, const dw_op& op,
              dw_error* error) {
  if (!window.has_signal(op))
    return dw_invalid(error, "there is no such signal");
  if (op.signal_index != DW_SIGNAL_PAIR && op.signal_how != DW_SIGNAL_ADD &&
      op.signal_how != DW_SIGNAL_SET)
    return dw_invalid(error, "the way to raise the signal is unknown");
  if (int32_t code = window.before_signal(part, op, error)) return code;
  if (part.head == nullptr) [[unlikely]]
    return window.tell(part, op, error);
  store_signal(part.signal(op.signal_index, window.comm->rank), op.signal_index,
               op.signal_how, op.value);
  wake({part.head->sleepers, part.head->bell});
  return DW_OK;
}

[[gnu::always_inline]] inline int32_t move_mapped(const dw_host_api& host,
                                                  const WindowPart& part,
                                                  const dw_op& op,
                                                  uint64_t bytes,
                                                  dw_error* error) {
  char* const at = part.data + op.window_offset;
  if (op.kind == DW_OP_PUT)
    copy(at, op.in.data, bytes);
  else if (op.kind == DW_OP_GET)
    copy(op.out.data, at, bytes);
  else
    return done(dw_sdk::run_atomic(host, op, at, error));
  return DW_DONE;
}

// Moves to or from memory that its owner has brought.
int32_t move_lent(const dw_host_api& host, const char* backend,
                  const WindowPart& part, int rank, const dw_op& op,
                  uint64_t bytes, dw_error* error);

template <class Window, class RankPart>
[[gnu::always_inline]] inline int32_t move(Window& window, RankPart& part,
                                           const dw_op& op, dw_work* work,
                                           dw_error* error) {
  const uint64_t bytes = bytes_of(op);
  if (op.window_offset > part.bytes || bytes > part.bytes - op.window_offset)
    return dw_invalid(error, "the call reaches beyond the target's part");
  if (part.data == nullptr) [[unlikely]]
    return window.move_far(part, op, bytes, work, error);
  if (part.is_lent) [[unlikely]]
    return move_lent(*window.comm->host, window.backend, part,
                     window.comm->rank, op, bytes, error);
  if (const uint32_t closed = part.closed().load(std::memory_order_relaxed))
      [[unlikely]]
    return fail_closed(window.backend, closed, op.peer, error);
  return move_mapped(*window.comm->host, part, op, bytes, error);
}

// Reads an operation on a window of this communicator. Refuses unknown flags
// and extensions.
template <class Window, class Comm>
[[gnu::always_inline]] inline int32_t query_window_op(const Comm* comm,
                                                      const dw_op* given,
                                                      dw_op* space,
                                                      const dw_op** read,
                                                      dw_error* error) {
  if (int32_t code = dw_read_op(space, read, given))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "the operation has a size or a field that is not known");
  const dw_op& op = **read;
  const uint32_t known =
      DW_FLAG_CALLER_WAITS |
      (op.kind == DW_OP_PUT ? uint32_t{DW_FLAG_WITH_SIGNAL} : 0);
  if (dw_unknown_flags(op.flags, known) != 0)
    return dw_unsupported(error, "a flag is not supported");
  if (op.next != nullptr && dw_check_extensions(op.next) != DW_OK)
    return dw_unsupported(error, "no extension is supported");
  if (op.window == nullptr || Window::of(op.window)->comm != comm)
    return dw_invalid(error, "the window is of another communicator");
  return DW_OK;
}

template <class Window, class Comm>
int32_t submit_window_op(const Comm* comm, const dw_op* given, dw_work* work,
                         dw_error* error) {
  dw_op space;
  const dw_op* read;
  if (int32_t code = query_window_op<Window>(comm, given, &space, &read, error))
    return code;
  const dw_op& op = *read;
  Window& window = *Window::of(op.window);
  if (int32_t code = window.check(error)) return code;
  if (op.kind == DW_OP_WAIT_SIGNAL) return wait_signal(window, op, error);
  const bool orders = op.kind == DW_OP_FLUSH || op.kind == DW_OP_FENCE;
  if (op.peer < (orders ? -1 : 0) || op.peer >= window.comm->size)
    return dw_invalid(error, "there is no such rank");
  if (orders) {
    window.fence.fetch_add(0, std::memory_order_seq_cst);
    return done(window.order_far(op, error));
  }
  auto& part = window.parts[static_cast<size_t>(op.peer)];
  if (op.kind == DW_OP_SIGNAL) {
    if (const uint32_t closed = part.closed().load(std::memory_order_seq_cst))
      return fail_closed(window.backend, closed, op.peer, error);
    return done(raise(window, part, op, error));
  }
  const bool signals = (op.flags & DW_FLAG_WITH_SIGNAL) != 0;
  if (signals && !window.has_signal(op))
    return dw_invalid(error, "there is no such signal");
  // The signal follows the data, so the caller waits for them.
  const int32_t code = move(window, part, op, signals ? nullptr : work, error);
  if (!signals || code != DW_DONE) return code;
  return done(raise(window, part, op, error));
}

// The slot window_map. `refusal` says why a part cannot be mapped.
template <class Window>
int32_t map_window(const Window& window, int32_t rank, void** address,
                   uint64_t* bytes, const char* refusal, dw_error* error) {
  if (rank < 0 || rank >= window.comm->size)
    return dw_invalid(error, "there is no such rank");
  const WindowPart& part = window.parts[static_cast<size_t>(rank)];
  if (part.data == nullptr && rank != window.comm->rank)
    return fail(window.backend, error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED,
                rank, refusal);
  *address =
      part.data != nullptr
          ? part.data
          : reinterpret_cast<void*>(static_cast<uintptr_t>(part.address));
  *bytes = part.bytes;
  return DW_OK;
}

// Waits until no rank is inside of the memory that this rank has brought.
// `has_died` tells whether the process of a rank has ended.
template <class Window, class HasDied>
int32_t wait_for_writers(const Window& window, int64_t deadline_ns,
                         const HasDied& has_died, dw_error* error) {
  const auto& comm = *window.comm;
  for (int rank = 0; rank < comm.size; ++rank) {
    const std::atomic<uint64_t>& inside =
        window.parts[static_cast<size_t>(comm.rank)].writers[rank].value;
    while (inside.load(std::memory_order_seq_cst) != 0) {
      if (has_died(rank)) break;
      if (deadline_ns != 0 && comm.host->now_ns(comm.host->self) > deadline_ns)
        return fail(window.backend, error, DW_DEADLINE_EXCEEDED,
                    DW_REASON_TIMED_OUT, rank,
                    "a rank is still writing to the window");
      sched_yield();
    }
  }
  return DW_OK;
}

}  // namespace dw_hostmem

#endif  // DISTWRAP_PLUGINS_HOSTMEM_WINDOW_OPS_H_
