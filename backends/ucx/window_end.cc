// What a window is mapped at, and its end.
#include "backend.h"
#include "sdk/fail.h"
#include "window.h"

#include <algorithm>
#include <memory>

namespace ucx_backend {

int32_t window_map(dw_window* given, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error) {
  const Window& window = *Window::of(given);
  if (rank < 0 || rank >= window.comm->size)
    return dw_invalid(error, "ucx: there is no such rank");
  const WindowPart& part = window.parts[static_cast<size_t>(rank)];
  if (part.data == nullptr && (rank != window.comm->rank))
    return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, rank, 0,
                   "ucx: the rank's memory cannot be mapped: it is on another "
                   "host, or the rank brought its own");
  *address = part.data;
  *bytes = part.bytes;
  return DW_OK;
}

// Memory of UCX's lives as long as somebody has it mapped, so late writes there
// hurt nobody. What comes over UCX, with the target's own help, ends with the
// worker; what the kernel does without it is waited for.
int32_t window_destroy(dw_window* given, int64_t deadline_ns, dw_error* error) {
  const std::unique_ptr<Window> window(Window::of(given));
  Comm& comm = *window->comm;
  {
    std::lock_guard<std::mutex> lock(comm.windows_mutex);
    auto& all = comm.windows;
    all.erase(std::remove(all.begin(), all.end(), window.get()), all.end());
  }
  window->mine().head->closed.store(1, std::memory_order_seq_cst);
  tell_closed(*window);
  window->thread.finish();
  {
    Worker::Hold hold(window->worker);
    window->worker.close();
  }
  if (!window->brings) return DW_OK;
  return wait_for_writers(*window, deadline_ns, error);
}

int32_t fail_closed(uint32_t closed, int peer, dw_error* error) {
  if (closed == Worker::kLost)
    return dw_fail(error, DW_UNAVAILABLE, DW_REASON_PEER_LOST, peer, 0,
                   "ucx: the target is lost");
  return dw_fail(error, DW_FAILED_PRECONDITION, DW_REASON_STALE_EPOCH, peer, 0,
                 "ucx: the target has ended the window");
}

void break_windows(Comm* comm) {
  std::lock_guard<std::mutex> lock(comm->windows_mutex);
  // Who only waits is not kept by the end of the workers.
  for (Window* const window : comm->windows) {
    window->failure.abort();
    ring(window->mine().head->bell);
  }
  for (Window* const window : comm->windows) {
    if (!window->has_worker) continue;
    Worker::Hold hold(window->worker);
    window->worker.tear_down(true);
  }
}

}  // namespace ucx_backend
