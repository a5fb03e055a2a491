// Windows: memory of mem_alloc that NCCL knows on all ranks, and the signals by
// which pairs of ranks tell each other of their puts. NCCL counts signals for
// each communicator, with every put, so a window has a communicator of its own.
#ifndef DISTWRAP_BACKENDS_NCCL_WINDOW_H_
#define DISTWRAP_BACKENDS_NCCL_WINDOW_H_

#include "backend.h"
#include "read_call.h"

#include <map>
#include <memory>
#include <mutex>

namespace nccl_backend {

struct Window {
  // The group's communicator, where its abort finds the window.
  Comm* owner = nullptr;
  // Where NCCL does the window's operations.
  std::unique_ptr<Comm> comm;
  ncclWindow_vidmem* handle = nullptr;
  // This rank's part; equally large on all ranks.
  char* at = nullptr;
  size_t bytes = 0;
  // By rank: waits for its signals whose callers have given up. NCCL cannot
  // take a wait back, so the next wait for that rank goes on with it.
  std::multimap<int, Flight*> late;
  std::mutex late_mutex;
};

inline Window* of(dw_window* window) {
  return reinterpret_cast<Window*>(window);
}

// The first NCCL with one-sided operations, and the driver they need.
inline constexpr int kWindowsSince = version_code(2, 29, 2);
inline constexpr int kWindowsDriver = 12050;
// Before, NCCL mixed up several windows on one block of memory.
inline constexpr int kWindowsShareBlocksSince = version_code(2, 31, 2);

bool has_windows(const Nccl& nccl, int driver_version);

// Reads the order to build a window, and finds its memory. DW_OK, or the code
// of the refusal.
int32_t read_window(Comm* owner, const dw_setup_info* given,
                    dw_setup_info* info, Window* window, dw_error* error);

// Checks an operation on a window. DW_OK, or the code of the refusal.
// Precondition: the device's context is current.
int32_t read_window_call(const Window& window, const dw_op& op, ReadCall* call,
                         dw_error* error);

// Like `enqueue`, for an operation on a window.
int enqueue_on_window(const Window& window, const dw_op& op,
                      CUstream_st* stream, const char** what);

// The wait for this rank that a caller has given up; null: there is none.
Flight* take_late_wait(Window& window, const dw_op& op);
void keep_late_wait(Window& window, const dw_op& op, Flight* flight);

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_WINDOW_H_
