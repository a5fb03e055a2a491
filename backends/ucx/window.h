// Windows: memory of a group's ranks that other ranks read and write.
//
// Every rank has shared memory for its signals, and for its data unless the
// caller brings them. Ranks of its host that can map that memory load and store
// directly; all others use the window's own worker.
//
// Threads: any. Ownership: the host, which destroys it before the communicator.
#ifndef DISTWRAP_BACKENDS_UCX_WINDOW_H_
#define DISTWRAP_BACKENDS_UCX_WINDOW_H_

#include "distwrap/abi/plugin.h"
#include "hostmem/segment.h"
#include "hostmem/setup_exchange.h"
#include "hostmem/window.h"
#include "memory.h"
#include "progress_thread.h"
#include "sdk/kept_failure.h"
#include "worker.h"

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace ucx_backend {

struct Comm;

// The process of a rank, as other ranks of its host know it.
struct Owner {
  int64_t pid;
  uint64_t pid_space;
};

// A rank's part, as this rank sees it. The data of other hosts, and those that
// a rank brings, are mapped by their owner alone.
struct WindowPart : dw_hostmem::WindowPart {
  dw_hostmem::Segment mapping{"ucx"};  // another rank's memory, if mapped
  Owner owner = {};

  std::string key;
  // Set when a message has told that the owner has ended the window; or
  // Worker::kLost.
  std::atomic<uint32_t> told_closed = 0;
  // Used by the window's worker, under its lock.
  ucp_rkey_h access = nullptr;
  // The number of writes that a flush has to follow before a signal, and the
  // number that were flushed.
  std::atomic<uint64_t> written = 0, flushed = 0;

  const std::atomic<uint32_t>& closed() const {
    return head != nullptr ? head->closed : told_closed;
  }
  bool is_flushed() const {
    return flushed.load(std::memory_order_acquire) >=
           written.load(std::memory_order_acquire);
  }
};

// The active messages between windows.
enum class Message : uint32_t { kSignal, kClosed, kAtomic, kAnswer };
struct MessageHead {
  Message what;
  int32_t from;
};

// A request of this rank to another one.
struct Question {
  Transfer* answered = nullptr;
  char* out = nullptr;
  size_t bytes = 0;
  int32_t code = 0;
};

struct Window : dw_hostmem::WindowWords {
  Window(Comm* by, uint64_t n_signals);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  Comm* const comm;
  // Signals, and the data unless the caller brings them.
  dw_hostmem::Segment control{"ucx"};
  Memory reached;  // the data, registered for the worker
  bool brings = false;
  bool has_worker = false;        // some part of some rank is not mapped
  std::vector<WindowPart> parts;  // by rank

  // The worker for parts that are not mapped. Never opened when all are mapped.
  alignas(2 * dw_hostmem::kLine) dw_sdk::KeptFailure failure{"ucx"};
  Worker worker;
  // Guarded by the worker's lock.
  std::unordered_map<uint64_t, Question*> questions;
  uint64_t asked = 0;
  ProgressThread thread{&worker};

  WindowPart& mine();
  // DW_OK, or the error with which every new operation fails.
  int32_t check(dw_error* error);
  // Accesses to parts that are not mapped (window_ops.h).
  int32_t move_far(WindowPart& part, const dw_op& op, uint64_t bytes,
                   dw_work* work, dw_error* error);
  int32_t order_far(const dw_op& op, dw_error* error);
  int32_t before_signal(const WindowPart& part, const dw_op& op,
                        dw_error* error);
  int32_t tell(WindowPart& part, const dw_op& op, dw_error* error);
  bool drive();
  void before_sleep();

  static Window* of(dw_window* window) {
    return reinterpret_cast<Window*>(window);
  }
};

// window_setup.cc
int32_t begin_window(Comm* comm, const dw_setup_info& info,
                     std::unique_ptr<dw_hostmem::SetupExchange>* exchange,
                     dw_error* error);

// window_end.cc
int32_t window_map(dw_window* window, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error);
int32_t window_destroy(dw_window* window, int64_t deadline_ns, dw_error* error);
// Breaks all windows of a communicator; waiting threads get the error.
void break_windows(Comm* comm);

// window_ops.cc
int32_t submit_to_window(Comm* comm, const dw_op* op, dw_work* work,
                         dw_error* error);
int32_t query_window(const Comm* comm, const dw_op* op, dw_error* error);

// window_signals.cc
// Handles a message of another rank's window.
ucs_status_t hear_window(void* window, const void* header, size_t header_bytes,
                         void* data, size_t bytes,
                         const ucp_am_recv_param_t* param);
// Tells the ranks that cannot see it that this rank has ended the window.
void tell_closed(Window& window);

// window_access.cc: parts that are not mapped.
// Runs a put or get of this many bytes: DW_DONE, or DW_OK when `work` is
// completed later.
int32_t run_far_move(Window& window, WindowPart& part, const dw_op& op,
                     uint64_t bytes, dw_work* work, dw_error* error);
// Flushes one rank's part, or all of them (`peer` -1).
int32_t flush_far(Window& window, const dw_op& op, int peer, dw_error* error);
// DW_OK, or the error of the transfer.
int32_t result_of(Window& window, const Transfer& transfer, dw_error* error);
// Runs one access to its end.
int32_t run_access(Window& window, WindowPart& part, const EngineOp& call,
                   Worker::Access access, dw_error* error);

// window_atomics.cc: accumulate, fetch_op and compare_swap on parts that are
// not mapped.
int32_t run_far_atomic(Window& window, WindowPart& part, const dw_op& op,
                       dw_error* error);
// Handles a request or an answer of another rank.
void hear_atomic(Window& window, const void* header, size_t header_bytes,
                 void* data, size_t bytes, ucp_ep_h from);
void hear_answer(Window& window, const void* header, size_t header_bytes,
                 const void* data, size_t bytes);

// writers.cc: the processes that may be in memory which its owner has brought.
Owner this_process();
// Whether that process has ended; false if this process cannot know.
bool has_died(const Owner& owner);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_WINDOW_H_
