#include "hostmem/window_ops.h"

#include <cstdio>

namespace dw_hostmem {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMostSignals = 65536;

}  // namespace

void WindowPart::lay_out(char* control, int size) {
  head = reinterpret_cast<WindowHead*>(control);
  pairs = reinterpret_cast<Slot*>(control + sizeof(WindowHead));
  writers = pairs + size;
  slots = writers + size;
}

uint64_t whole_pages(uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

uint64_t control_bytes(int size, uint64_t signals) {
  return whole_pages(sizeof(WindowHead) +
                     (2 * static_cast<uint64_t>(size) + signals) *
                         sizeof(Slot));
}

uint64_t data_bytes(const dw_setup_info& info) {
  const dw_dtype& type = info.memory.dtype;
  return static_cast<uint64_t>(info.memory.count) *
         (static_cast<uint64_t>(type.bits) * type.lanes / 8);
}

int32_t check_window(const dw_setup_info& info, int rank, int size,
                     dw_error* error) {
  if (info.rank != rank || info.size != size)
    return dw_invalid(error, "the window is of another communicator");
  if (info.signals > kMostSignals)
    return dw_unsupported(error, "a window has 65536 signals at most");
  return DW_OK;
}

int32_t fail(const char* backend, dw_error* error, int32_t code,
             uint16_t reason, int32_t peer, const char* text) {
  char whole[sizeof error->text];
  std::snprintf(whole, sizeof whole, "%s: %s", backend, text);
  return dw_fail(error, code, reason, peer, 0, whole);
}

int32_t fail_closed(const char* backend, uint32_t closed, int peer,
                    dw_error* error) {
  if (closed == kLost)
    return fail(backend, error, DW_UNAVAILABLE, DW_REASON_PEER_LOST, peer,
                "the target is lost");
  return fail(backend, error, DW_FAILED_PRECONDITION, DW_REASON_STALE_EPOCH,
              peer, "the target has ended the window");
}

int32_t move_lent(const dw_host_api& host, const char* backend,
                  const WindowPart& part, int rank, const dw_op& op,
                  uint64_t bytes, dw_error* error) {
  const Inside inside(part, rank);
  if (const uint32_t closed = part.closed().load(std::memory_order_seq_cst))
    return fail_closed(backend, closed, op.peer, error);
  return move_mapped(host, part, op, bytes, error);
}

}  // namespace dw_hostmem
