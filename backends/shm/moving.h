// Groups with unfinished messages that have works. A thread that waits for one
// of them drives the progress of all, so the operation thread need not wake it.
//
// Threads: any. Ownership: owned by the Backend, which outlives the groups.
#ifndef DISTWRAP_BACKENDS_SHM_MOVING_H_
#define DISTWRAP_BACKENDS_SHM_MOVING_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

struct dw_backend;

namespace shm_backend {

struct Comm;

class Moving {
 public:
  void add(Comm* comm);
  // When this returns, no thread uses `comm` here any more.
  void remove(Comm* comm);
  // Moves messages in all groups without blocking. Returns the number of groups
  // in which messages have ended.
  int32_t move();

 private:
  Comm* pin(size_t* place);

  std::mutex mutex_;  // no other lock is taken while holding it
  std::vector<Comm*> comms_;
};

int32_t progress(dw_backend* backend);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_MOVING_H_
