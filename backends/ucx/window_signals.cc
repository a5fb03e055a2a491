// Messages between windows. A signal to a word that is not mapped is a message
// on which the target stores it, and wakes the threads that sleep there.
#include "backend.h"
#include "hostmem/wait.h"
#include "sdk/fail.h"
#include "window.h"

#include <cstring>

namespace ucx_backend {
namespace {

struct Told {
  MessageHead head;
  uint64_t value;
  uint32_t index;
  uint16_t how, reserved;
};

}  // namespace

int32_t Window::tell(WindowPart& part, const dw_op& op, dw_error* error) {
  const Told told = {{Message::kSignal, comm->rank},
                     op.value,
                     op.signal_index,
                     op.signal_how,
                     0};
  EngineOp call;
  call.sends = call.remote = true;
  call.peer = op.peer;
  call.deadline_ns = op.deadline_ns;
  call.timeout_ns = op.timeout_ns;
  // A flush makes sure that it has left.
  part.written.fetch_add(1, std::memory_order_release);
  Worker::Access access;
  access.what = Worker::Access::What::kTell;
  access.head = &told;
  access.head_bytes = sizeof told;
  return run_access(*this, part, call, access, error);
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
          dw_hostmem::kClosed, std::memory_order_release);
      break;
    case Message::kSignal: {
      Told told;
      if (header_bytes != sizeof told) return UCS_OK;
      std::memcpy(&told, header, sizeof told);
      if (told.index == DW_SIGNAL_PAIR || told.index < window->signals)
        dw_hostmem::store_signal(
            window->mine().signal(told.index, told.head.from), told.index,
            told.how, told.value);
    }
  }
  // The processor may still hold back the sleepers' stores, so the bell rings
  // always.
  dw_hostmem::ring(window->mine().head->bell);
  return UCS_OK;
}

void tell_closed(Window& window) {
  if (!window.has_worker) return;
  const MessageHead told = {Message::kClosed, window.comm->rank};
  Worker::Hold hold(window.worker);
  window.worker.tell_known(&told, sizeof told);
}

}  // namespace ucx_backend
