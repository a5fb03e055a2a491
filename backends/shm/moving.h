// The groups with messages that have works. Who waits for one moves them
// himself, whichever they are of, rather than be woken by the thread that
// would.
//
// Threads: any. Ownership: of the backend's instance, which outlives the
// groups.
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
  // It is not looked at any more when this returns.
  void remove(Comm* comm);
  // Never blocks. In how many groups messages have ended.
  int32_t move();

 private:
  Comm* pin(size_t* place);

  std::mutex mutex_;  // nothing else is taken under it
  std::vector<Comm*> comms_;
};

int32_t progress(dw_backend* backend);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_MOVING_H_
