// One message on its way through UCX, or one access to a peer's memory.
#ifndef DISTWRAP_BACKENDS_UCX_TRANSFER_H_
#define DISTWRAP_BACKENDS_UCX_TRANSFER_H_

#include "bell.h"
#include "call.h"
#include "distwrap/abi/types.h"

#include <atomic>

namespace ucx_backend {

class Worker;

// Belongs to its maker, who waits for it; or with a work to nobody, and goes
// when that is completed.
struct Transfer {
  enum class State : uint8_t { kOpen, kDone, kFailed };

  explicit Transfer(const Call& made, dw_work* whose = nullptr)
      : call(made), work(whose) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  bool is_open() const {
    return state.load(std::memory_order_acquire) == State::kOpen;
  }

  const Call call;
  dw_work* const work;
  // The last that is done to a transfer that somebody waits for.
  std::atomic<State> state = State::kOpen;

  // Of the worker, under its lock.
  Worker* worker = nullptr;
  void* request = nullptr;
  // UCX may call back before it has returned.
  bool beginning = false, ended_at_once = false;
  // Not 0: the peer has ended its window.
  const std::atomic<uint32_t>* ended = nullptr;
  const Bell* sleeper = nullptr;  // of who sleeps until it has ended
  Transfer *before = nullptr, *after = nullptr;
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_TRANSFER_H_
