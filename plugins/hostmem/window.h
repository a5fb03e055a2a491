// The memory of a window as the processes of one host map it: a part for each
// rank, which begins with words for signals and for the window's end. A backend
// gets the memory, and derives its WindowPart and Window from those here.
//
//   head | a counter for each rank that signals | a count of writers for each
//   rank | signal slots | on a new page: the data, unless the rank brings them
//
// Threads: any; the words are atomic, and the rest does not change after the
// setup. Ownership: the pointers refer to memory of the backend.
// Errors: a function that can fail returns a code, and fills `error` unless
// that is NULL.
#ifndef DISTWRAP_PLUGINS_HOSTMEM_WINDOW_H_
#define DISTWRAP_PLUGINS_HOSTMEM_WINDOW_H_

#include "distwrap/abi/plugin.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace dw_hostmem {

inline constexpr size_t kLine = 64;

struct WindowHead {
  std::atomic<uint64_t> token;   // token of the owner, once it has the part
  std::atomic<uint32_t> closed;  // not 0: the owner has ended the window
  alignas(2 * kLine) std::atomic<uint32_t> sleepers;
  alignas(2 * kLine) std::atomic<uint32_t> bell;
};
struct alignas(kLine) Slot {
  std::atomic<uint64_t> value;
};

// Values of WindowHead::closed.
inline constexpr uint32_t kClosed = 1;
// The owner is lost. Backends that learn of it store it in words of their own.
inline constexpr uint32_t kLost = 2;

// A rank's part, as this rank sees it.
struct WindowPart {
  WindowHead* head = nullptr;  // NULL: the pointers below are not mapped
  Slot* pairs = nullptr;       // by rank: number of its signals
  Slot* writers = nullptr;     // by rank: number of its threads in this memory
  Slot* slots = nullptr;       // signals
  char* data = nullptr;        // NULL: not mapped
  uint64_t bytes = 0;
  uint64_t address = 0;  // address of the data in the owner's process
  // Whether the mapped data are memory that the owner brought, and which it may
  // use otherwise after the window's end.
  bool is_lent = false;

  // `control`: the beginning of the part, where this process maps it.
  void lay_out(char* control, int size);
  const std::atomic<uint32_t>& closed() const { return head->closed; }
  // The word of a signal that rank `from` raises; `index` is that of the
  // operation, and there is such a signal.
  std::atomic<uint64_t>& signal(uint32_t index, int from) const {
    return index == DW_SIGNAL_PAIR ? pairs[from].value : slots[index].value;
  }
};

// Members of every Window.
struct WindowWords {
  WindowWords(const char* name, int size, uint64_t n_signals)
      : backend(name),
        signals(n_signals),
        consumed(std::make_unique<std::atomic<uint64_t>[]>(
            static_cast<size_t>(size))) {}

  bool has_signal(const dw_op& op) const {
    return op.signal_index == DW_SIGNAL_PAIR || op.signal_index < signals;
  }

  // A backend whose ranks map all words and drive nothing keeps these; another
  // one hides them (window_ops.h).
  int32_t order_far(const dw_op& /*op*/, dw_error* /*error*/) { return DW_OK; }
  int32_t before_signal(const WindowPart& /*part*/, const dw_op& /*op*/,
                        dw_error* /*error*/) {
    return DW_OK;
  }
  int32_t tell(const WindowPart& /*part*/, const dw_op& /*op*/,
               dw_error* /*error*/) {
    return DW_OK;
  }
  bool drive() { return false; }
  void before_sleep() {}
  int32_t look_for_lost(dw_error* /*error*/) { return DW_OK; }

  const char* const backend;  // name of the backend, for errors
  const uint64_t signals;     // number of slots in each part
  // by rank: number of its `pairs` that this rank has consumed
  const std::unique_ptr<std::atomic<uint64_t>[]> consumed;
  // Fences are operations on this word, on a line that no thread reads, because
  // ThreadSanitizer does not know the fences of C++.
  alignas(2 * kLine) std::atomic<uint32_t> fence = 0;
};

// Marks this rank as inside of memory that its owner has brought, so that the
// owner waits at the window's end. The rank then checks that the window is not
// closed. Does nothing for a part whose words are not mapped.
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

uint64_t whole_pages(uint64_t bytes);
// The bytes before the data of a part, in whole pages.
uint64_t control_bytes(int size, uint64_t signals);
// The bytes of the data that a rank asks for or brings.
uint64_t data_bytes(const dw_setup_info& info);
// Refuses a window that is not this communicator's, or has too many signals.
int32_t check_window(const dw_setup_info& info, int rank, int size,
                     dw_error* error);

// Fills the error with "<backend>: <text>".
int32_t fail(const char* backend, dw_error* error, int32_t code,
             uint16_t reason, int32_t peer, const char* text);
// The error for a target that has ended the window, or is lost.
int32_t fail_closed(const char* backend, uint32_t closed, int peer,
                    dw_error* error);

// Stores a signal, after everything that this thread has written before. A
// thread that sleeps for it has to be woken.
inline void store_signal(std::atomic<uint64_t>& signal, uint32_t index,
                         uint16_t how, uint64_t value) {
  if (index == DW_SIGNAL_PAIR)
    signal.fetch_add(1, std::memory_order_release);
  else if (how == DW_SIGNAL_ADD)
    signal.fetch_add(value, std::memory_order_release);
  else
    signal.store(value, std::memory_order_release);
}

}  // namespace dw_hostmem

#endif  // DISTWRAP_PLUGINS_HOSTMEM_WINDOW_H_
