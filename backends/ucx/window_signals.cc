// Signals: a word of the target's that is stored to, or, where it is not
// mapped, a message by which the target does that itself. Either wakes who
// sleeps there.
#include "backend.h"
#include "sdk/fail.h"
#include "window.h"

#include <climits>

#include <cstring>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ucx_backend {
namespace {

struct Told {
  MessageHead head;
  uint64_t value;
  uint32_t index;
  uint16_t how, reserved;
};

void apply(std::atomic<uint64_t>& slot, uint32_t index, uint16_t how,
           uint64_t value) {
  if (index == DW_SIGNAL_PAIR)
    slot.fetch_add(1, std::memory_order_release);
  else if (how == DW_SIGNAL_ADD)
    slot.fetch_add(value, std::memory_order_release);
  else
    slot.store(value, std::memory_order_release);
}

std::atomic<uint64_t>* slot_at(const Window& window, const WindowPart& part,
                               uint32_t index, int from) {
  if (index == DW_SIGNAL_PAIR) return &part.pairs[from].value;
  return index < window.signals ? &part.slots[index].value : nullptr;
}

void wake(const WindowPart& part) {
  if (part.head->sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    ring(part.head->bell);
}

int32_t tell(Window& window, WindowPart& part, const dw_op& op,
             dw_error* error) {
  const Told told = {{Message::kSignal, window.comm->rank},
                     op.value,
                     op.signal_index,
                     op.signal_how,
                     0};
  Call call;
  call.sends = call.remote = true;
  call.peer = op.peer;
  call.deadline_ns = op.deadline_ns;
  call.timeout_ns = op.timeout_ns;
  // A flush sees to it that it has left.
  part.written.fetch_add(1, std::memory_order_release);
  Worker::Access access;
  access.what = Worker::Access::What::kTell;
  access.head = &told;
  access.head_bytes = sizeof told;
  return run_access(window, part, call, access, error);
}

}  // namespace

void ring(std::atomic<uint32_t>& bell) {
  bell.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool has_slot(const Window& window, const dw_op& op) {
  return op.signal_index == DW_SIGNAL_PAIR || op.signal_index < window.signals;
}

int32_t raise(Window& window, WindowPart& part, const dw_op& op,
              dw_error* error) {
  if (!has_slot(window, op))
    return dw_invalid(error, "ucx: there is no such signal");
  if (op.signal_index != DW_SIGNAL_PAIR && op.signal_how != DW_SIGNAL_ADD &&
      op.signal_how != DW_SIGNAL_SET)
    return dw_invalid(error, "ucx: a signal sets or adds");
  if (!part.is_flushed()) [[unlikely]]
    if (int32_t code = flush_far(window, op, op.peer, error)) return code;
  if (part.head == nullptr) [[unlikely]]
    return tell(window, part, op, error);
  apply(*slot_at(window, part, op.signal_index, window.comm->rank),
        op.signal_index, op.signal_how, op.value);
  // Whoever sleeps has said so long ago, or looks again (window_wait.cc).
  wake(part);
  return DW_OK;
}

ucs_status_t hear_window(void* given, const void* header, size_t header_bytes,
                         void* data, size_t bytes,
                         const ucp_am_recv_param_t* param) {
  auto* const window = static_cast<Window*>(given);
  MessageHead head;
  if (header_bytes < sizeof head) return UCS_OK;
  std::memcpy(&head, header, sizeof head);
  if (head.from < 0 || head.from >= window->comm->size ||
      (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
    return UCS_OK;
  switch (head.what) {
    case Message::kAtomic:
      if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0)
        hear_atomic(*window, header, header_bytes, data, bytes,
                    param->reply_ep);
      return UCS_OK;
    case Message::kAnswer:
      hear_answer(*window, header, header_bytes, data, bytes);
      return UCS_OK;
    case Message::kClosed:
      window->parts[static_cast<size_t>(head.from)].told_closed.store(
          1, std::memory_order_release);
      break;
    case Message::kSignal: {
      Told told;
      if (header_bytes != sizeof told) return UCS_OK;
      std::memcpy(&told, header, sizeof told);
      if (std::atomic<uint64_t>* const slot =
              slot_at(*window, window->mine(), told.index, told.head.from))
        apply(*slot, told.index, told.how, told.value);
    }
  }
  // A processor may still keep what sleepers have written to itself.
  ring(window->mine().head->bell);
  return UCS_OK;
}

void tell_closed(Window& window) {
  if (!window.has_worker) return;
  const MessageHead told = {Message::kClosed, window.comm->rank};
  Worker::Hold hold(window.worker);
  window.worker.tell_known(&told, sizeof told);
}

}  // namespace ucx_backend
