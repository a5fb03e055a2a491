// The mapping of a window, and its end.
#include "backend.h"
#include "hostmem/window_ops.h"
#include "window.h"

#include <algorithm>
#include <memory>

namespace ucx_backend {

int32_t window_map(dw_window* given, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error) {
  return dw_hostmem::map_window(
      *Window::of(given), rank, address, bytes,
      "the rank's memory cannot be mapped: it is on another host, this process "
      "may not see the rank's process, or the rank brought its own",
      error);
}

// Shared memory lives as long as any process has it mapped, so late writes to
// it do no harm. Accesses over UCX that need the target's help end with the
// worker; accesses by the kernel, without that help, are waited for.
int32_t window_destroy(dw_window* given, int64_t deadline_ns, dw_error* error) {
  const std::unique_ptr<Window> window(Window::of(given));
  Comm& comm = *window->comm;
  {
    std::lock_guard<std::mutex> lock(comm.windows_mutex);
    auto& all = comm.windows;
    all.erase(std::remove(all.begin(), all.end(), window.get()), all.end());
  }
  window->mine().head->closed.store(dw_hostmem::kClosed,
                                    std::memory_order_seq_cst);
  tell_closed(*window);
  window->thread.finish();
  {
    Worker::Hold hold(window->worker);
    window->worker.close();
  }
  if (!window->brings) return DW_OK;
  return dw_hostmem::wait_for_writers(
      *window, deadline_ns,
      [&](int rank) {
        return has_died(window->parts[static_cast<size_t>(rank)].owner);
      },
      error);
}

void break_windows(Comm* comm) {
  std::lock_guard<std::mutex> lock(comm->windows_mutex);
  // A thread that only waits does not keep the workers from ending.
  for (Window* const window : comm->windows) {
    window->failure.abort();
    dw_hostmem::ring(window->mine().head->bell);
  }
  for (Window* const window : comm->windows) {
    if (!window->has_worker) continue;
    Worker::Hold hold(window->worker);
    window->worker.tear_down(true);
  }
}

}  // namespace ucx_backend
