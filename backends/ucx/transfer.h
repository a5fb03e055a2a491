// One message in flight in UCX, or one access to a peer's memory.
#ifndef DISTWRAP_BACKENDS_UCX_TRANSFER_H_
#define DISTWRAP_BACKENDS_UCX_TRANSFER_H_

#include "bell.h"
#include "call.h"
#include "distwrap/abi/types.h"

#include <atomic>
#include <cstddef>

namespace ucx_backend {

class Worker;

// Owned by its maker, who waits for it. A transfer with a work owns itself and
// is deleted when the work is completed.
struct Transfer {
  enum class State : uint8_t { kOpen, kDone, kFailed };

  explicit Transfer(const EngineOp& made, dw_work* whose = nullptr)
      : call(made), work(whose) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  bool is_open() const {
    return state.load(std::memory_order_acquire) == State::kOpen;
  }

  const EngineOp call;
  dw_work* const work;
  // The last store to a transfer for which a thread waits.
  std::atomic<State> state = State::kOpen;

  // Used by the worker, under its lock.
  Worker* worker = nullptr;
  void* request = nullptr;
  // UCX may call back before its function has returned.
  bool beginning = false, ended_at_once = false;
  // Not 0: the peer has ended its window.
  const std::atomic<uint32_t>* ended = nullptr;
  const Bell* sleeper = nullptr;  // bell of the thread that sleeps until the
                                  // end
  Transfer *before = nullptr, *after = nullptr;
  // A receive whose message has not come: the first receive of another tag, and
  // the next and the last one of the same tag. Only the first of a tag is in
  // the list of tags, and knows the last.
  Transfer *next_tag = nullptr, *next_same = nullptr, *last_same = nullptr;
  // A short message comes in here, and into the receive's buffer once it is
  // known to fit.
  static constexpr size_t kCopied = 1024;
  bool is_copied = false;
  char copy[kCopied];
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_TRANSFER_H_
