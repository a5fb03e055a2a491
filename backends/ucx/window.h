// Memory of a group's ranks that the others read and write: one-sided
// operations.
//
// Every rank has memory of UCX's for its signals, and for its data unless it
// brings its own. Who can map that (ucp_rkey_ptr: ranks of one host) loads and
// stores there; everybody else goes through the window's own worker.
//
// Threads: any. Ownership: of the host, which destroys it before the
// communicator.
#ifndef DISTWRAP_BACKENDS_UCX_WINDOW_H_
#define DISTWRAP_BACKENDS_UCX_WINDOW_H_

#include "building.h"
#include "distwrap/abi/plugin.h"
#include "failure.h"
#include "memory.h"
#include "progress_thread.h"
#include "worker.h"

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace ucx_backend {

struct Comm;

inline constexpr size_t kLine = 64;

// What a part begins with. Counters, writers and slots follow, one on a line
// each; then, on a page, the memory.
struct WindowHead {
  std::atomic<uint64_t> token;   // the owner's
  std::atomic<uint32_t> closed;  // 1: the owner has ended the window
  alignas(2 * kLine) std::atomic<uint32_t> sleepers;
  alignas(2 * kLine) std::atomic<uint32_t> bell;
};
struct alignas(kLine) Slot {
  std::atomic<uint64_t> value;
};

// The process of a rank, as others on its host know it.
struct Owner {
  int64_t pid;
  uint64_t pid_space;
};

// A rank's part, as this rank sees it.
struct WindowPart {
  WindowHead* head = nullptr;  // NULL: what follows is not mapped
  Slot* pairs = nullptr;       // by rank: how often it has signalled
  Slot* writers = nullptr;     // by rank: how many threads are in this memory
  Slot* slots = nullptr;       // signals
  char* data = nullptr;        // NULL: not mapped
  uint64_t bytes = 0;
  ucp_rkey_h mapping = nullptr;  // of the mapper
  Owner owner = {};

  // In its owner's process.
  uint64_t address = 0;
  std::string key;
  // Likewise, by a message; or Worker::kLost.
  std::atomic<uint32_t> told_closed = 0;
  // Of the window's worker, under its lock.
  ucp_rkey_h access = nullptr;
  // Writes that a flush has to follow before a signal, and up to which one did.
  std::atomic<uint64_t> written = 0, flushed = 0;

  const std::atomic<uint32_t>& closed() const {
    return head != nullptr ? head->closed : told_closed;
  }
  bool is_flushed() const {
    return flushed.load(std::memory_order_acquire) >=
           written.load(std::memory_order_acquire);
  }
};

// What windows tell each other, by active messages.
enum class Message : uint32_t { kSignal, kClosed, kAtomic, kAnswer };
struct MessageHead {
  Message what;
  int32_t from;
};

// What this rank has asked another one for.
struct Question {
  Transfer* answered = nullptr;
  char* out = nullptr;
  size_t bytes = 0;
  int32_t code = 0;
};

struct Window {
  Window(Comm* by, uint64_t n_signals);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  Comm* const comm;
  const uint64_t signals;
  Memory control;  // and the data, unless they are brought
  Memory reached;  // the data, for the worker
  bool brings = false;
  bool has_worker = false;        // something is not mapped, somewhere
  std::vector<WindowPart> parts;  // by rank
  std::unique_ptr<std::atomic<uint64_t>[]> consumed;  // of `pairs`, by rank
  // What fences are made with, on a line that nobody reads: a fence of C++ is
  // one that ThreadSanitizer does not know.
  alignas(2 * kLine) std::atomic<uint32_t> fence = 0;

  // For what is not mapped. Never opened where everything is.
  alignas(2 * kLine) FirstFailure failure;
  Worker worker;
  // Under its lock.
  std::unordered_map<uint64_t, Question*> questions;
  uint64_t asked = 0;
  ProgressThread thread{&worker};

  WindowPart& mine();
  // DW_OK, or why nothing is done any more.
  int32_t check(dw_error* error);

  static Window* of(dw_window* window) {
    return reinterpret_cast<Window*>(window);
  }
};

// window_setup.cc
int32_t begin_window(Comm* comm, const dw_setup_info& info,
                     std::unique_ptr<Building>* building, dw_error* error);

// window_end.cc
int32_t window_map(dw_window* window, int32_t rank, void** address,
                   uint64_t* bytes, dw_error* error);
int32_t window_destroy(dw_window* window, int64_t deadline_ns, dw_error* error);
// Of a target that is closed.
int32_t fail_closed(uint32_t closed, int peer, dw_error* error);
// All of a communicator: who waits in one hears of it.
void break_windows(Comm* comm);

// window_ops.cc
int32_t submit_to_window(Comm* comm, const dw_op* op, dw_work* work,
                         dw_error* error);
int32_t query_window(const Comm* comm, const dw_op* op, dw_error* error);

// window_signals.cc
// Whether the window has the operation's signal.
bool has_slot(const Window& window, const dw_op& op);
// After whatever this thread has written before.
int32_t raise(Window& window, WindowPart& part, const dw_op& op,
              dw_error* error);
// A message of another rank's window.
ucs_status_t hear_window(void* window, const void* header, size_t header_bytes,
                         void* data, size_t bytes,
                         const ucp_am_recv_param_t* param);
// This rank has ended the window: those hear of it that do not see it.
void tell_closed(Window& window);
void ring(std::atomic<uint32_t>& bell);

// window_wait.cc
int32_t wait_signal(Window& window, const dw_op& op, dw_error* error);

// window_access.cc: parts that are not mapped.
// put or get of so many bytes: DW_DONE, or DW_OK when `work` is completed
// later.
int32_t move_far(Window& window, WindowPart& part, const dw_op& op,
                 uint64_t bytes, dw_work* work, dw_error* error);
// Of one rank's part, or of all (`peer` -1).
int32_t flush_far(Window& window, const dw_op& op, int peer, dw_error* error);
// DW_OK, or why it failed.
int32_t result_of(Window& window, const Transfer& transfer, dw_error* error);
// One access to its end.
int32_t run_access(Window& window, WindowPart& part, const Call& call,
                   Worker::Access access, dw_error* error);

// window_atomics.cc: accumulate, fetch_op and compare_swap there.
int32_t run_far_atomic(Window& window, WindowPart& part, const dw_op& op,
                       dw_error* error);
// Another rank asks, or answers.
void hear_atomic(Window& window, const void* header, size_t header_bytes,
                 void* data, size_t bytes, ucp_ep_h from);
void hear_answer(Window& window, const void* header, size_t header_bytes,
                 const void* data, size_t bytes);

// writers.cc: who is in memory that its owner has brought.
class Inside {
 public:
  Inside(const WindowPart& part, int rank)
      : count_(part.writers != nullptr ? &part.writers[rank].value : nullptr) {
    if (count_ != nullptr) count_->fetch_add(1, std::memory_order_seq_cst);
  }
  ~Inside() {
    if (count_ != nullptr) count_->fetch_sub(1, std::memory_order_seq_cst);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::atomic<uint64_t>* const count_;
};
Owner this_process();
// Until nobody is in this rank's memory any more, but for the dead.
int32_t wait_for_writers(Window& window, int64_t deadline_ns, dw_error* error);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_WINDOW_H_
