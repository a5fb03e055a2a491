#include "moving.h"

#include "backend.h"

#include <sched.h>

namespace shm_backend {

void Moving::add(Comm* comm) {
  std::lock_guard<std::mutex> lock(mutex_);
  comms_.push_back(comm);
}

void Moving::remove(Comm* comm) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase(comms_, comm);
  }
  while (comm->movers.load(std::memory_order_acquire) != 0) sched_yield();
}

// The next group, from `place` on, whose messages have to be moved; NULL: none.
Comm* Moving::pin(size_t* place) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (; *place < comms_.size(); ++*place) {
    Comm* const comm = comms_[*place];
    if (!comm->messages.has_open_works() || comm->failure.is_over()) continue;
    comm->movers.fetch_add(1, std::memory_order_relaxed);
    return comm;
  }
  return nullptr;
}

// The lock is not held: a completion callback may take other locks.
int32_t Moving::move() {
  int32_t moved = 0;
  size_t place = 0;
  while (Comm* const comm = pin(&place)) {
    const int open = comm->messages.open_works();
    comm->messages.progress_for_others();
    moved += comm->messages.open_works() < open ? 1 : 0;
    comm->movers.fetch_sub(1, std::memory_order_release);
    ++place;
  }
  return moved;
}

int32_t progress(dw_backend* backend) { return of(backend)->moving.move(); }

}  // namespace shm_backend
