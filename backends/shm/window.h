// Memory of a group's ranks that the others read and write: one-sided
// operations.
//
// A window has a segment of its own, of which every rank holds a part: a line
// of its state, a counter for each rank that signals, signal slots, and the
// memory itself, unless a rank brings its own. That lies in its heap, where the
// others map it (heap.h), or elsewhere in its process, where the kernel reads
// and writes it (reach.h) and nothing on it is atomic.
//
// Threads: any. Ownership: of the host, which destroys it before the
// communicator.
#ifndef DISTWRAP_BACKENDS_SHM_WINDOW_H_
#define DISTWRAP_BACKENDS_SHM_WINDOW_H_

#include "arena.h"
#include "distwrap/abi/plugin.h"
#include "heads.h"
#include "layout.h"
#include "reach.h"
#include "segment.h"

#include <atomic>
#include <memory>
#include <vector>

namespace shm_backend {

struct Comm;

// What a part begins with. Counters, slots and writers follow, one on a line
// each; then, on a page, the memory.
struct WindowHead {
  std::atomic<uint64_t> token;   // the owner's, once it has mapped this
  std::atomic<uint32_t> closed;  // the owner has ended the window
  alignas(2 * kLine) std::atomic<uint32_t> sleepers;
  alignas(2 * kLine) std::atomic<uint32_t> bell;
};
struct alignas(kLine) Slot {
  std::atomic<uint64_t> value;
};

// A rank's part, as this rank sees it.
struct WindowPart {
  WindowHead* head = nullptr;
  Slot* pairs = nullptr;    // by rank: how often it has signalled
  Slot* slots = nullptr;    // signals
  Slot* writers = nullptr;  // by rank: how many threads are in this memory
  char* data = nullptr;     // NULL when this rank cannot map it
  uint64_t bytes = 0;
  uint64_t address = 0;  // of what the owner brought, in its process
  Reach reach;
};

struct Window {
  Window() = default;
  ~Window() {
    if (arena != nullptr) arena->heap().drop(&lease);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  Comm* comm = nullptr;
  // Where the part lies in this rank's heap, from which it is not taken while
  // there is a window; no arena: elsewhere.
  std::shared_ptr<Arena> arena;
  Lease lease;
  Segment segment;
  std::vector<WindowPart> parts;  // by rank
  uint64_t signals = 0;
  std::unique_ptr<std::atomic<uint64_t>[]> consumed;  // of `pairs`, by rank
  // What fences are made with, on a line that nobody reads: a fence of C++ is
  // one that ThreadSanitizer does not know.
  alignas(2 * kLine) std::atomic<uint32_t> fence = 0;

  static Window* of(dw_window* window) {
    return reinterpret_cast<Window*>(window);
  }
};

// window_setup.cc
int32_t begin_window(Comm* comm, const dw_setup_info& info,
                     std::unique_ptr<Building>* building, dw_error* error);
int32_t window_map(dw_window* window, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error);
int32_t window_destroy(dw_window* window, int64_t deadline_ns, dw_error* error);

// window_ops.cc
int32_t submit_to_window(Comm* comm, const dw_op* op, dw_error* error);
int32_t query_window(const Comm* comm, const dw_op* op, dw_error* error);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_WINDOW_H_
