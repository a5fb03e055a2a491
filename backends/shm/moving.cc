#include "moving.h"

#include "backend.h"

namespace shm_backend {

void Moving::add(Comm* comm) {
  std::lock_guard<std::mutex> lock(mutex_);
  comms_.push_back(comm);
}

void Moving::remove(Comm* comm) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::erase(comms_, comm);
}

int32_t Moving::move() {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return 0;
  int32_t moved = 0;
  for (Comm* const comm : comms_) {
    const int open = comm->messages.open_works();
    if (open == 0 || comm->failure.is_over()) continue;
    comm->messages.progress_for_others();
    moved += comm->messages.open_works() < open ? 1 : 0;
  }
  return moved;
}

int32_t progress(dw_backend* backend) { return of(backend)->moving.move(); }

}  // namespace shm_backend
