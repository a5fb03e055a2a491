// Memory of a group's ranks that the others read and write: one-sided
// operations.
//
// A window has a segment of its own with a part for each rank: a line of its
// state, a counter for each rank that signals, signal slots, and the memory
// itself, unless the rank brings its own. Memory that a rank brings lies either
// in its heap, where the others map it (heap.h), or elsewhere in its process,
// where the kernel reads and writes it (reach.h) and nothing on it is atomic.
//
// Threads: any. Ownership: owned by the host, which destroys the window before
// the communicator.
#ifndef DISTWRAP_BACKENDS_SHM_WINDOW_H_
#define DISTWRAP_BACKENDS_SHM_WINDOW_H_

#include "arena.h"
#include "distwrap/abi/plugin.h"
#include "hostmem/segment.h"
#include "hostmem/setup_exchange.h"
#include "hostmem/window.h"
#include "reach.h"

#include <memory>
#include <vector>

namespace shm_backend {

using dw_hostmem::Segment;

struct Comm;

// A rank's part, as this rank sees it. Its data are not mapped when the rank
// brought memory that is not in its heap.
struct WindowPart : dw_hostmem::WindowPart {
  Reach reach;
};

struct Window : dw_hostmem::WindowWords {
  Window(Comm* by, uint64_t n_signals);
  ~Window() {
    if (arena != nullptr) arena->heap().drop(&lease);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  Comm* const comm;
  // The group segment if this rank's part lies in its heap, else NULL. The heap
  // keeps the part as long as the window exists.
  std::shared_ptr<Arena> arena;
  Lease lease;
  Segment segment{"shm"};
  std::vector<WindowPart> parts;  // by rank

  // The functions of window_ops.h.
  int32_t check(dw_error* error);
  int32_t move_far(WindowPart& part, const dw_op& op, uint64_t bytes,
                   dw_work* work, dw_error* error);
  int32_t look_for_lost(dw_error* error);

  static Window* of(dw_window* window) {
    return reinterpret_cast<Window*>(window);
  }
};

// window_setup.cc
int32_t begin_window(Comm* comm, const dw_setup_info& info,
                     std::unique_ptr<dw_hostmem::SetupExchange>* exchange,
                     dw_error* error);
int32_t window_map(dw_window* window, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error);
int32_t window_destroy(dw_window* window, int64_t deadline_ns, dw_error* error);

// window_ops.cc
int32_t submit_to_window(Comm* comm, const dw_op* op, dw_error* error);
int32_t query_window(const Comm* comm, const dw_op* op, dw_error* error);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_WINDOW_H_
