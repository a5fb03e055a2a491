// Which processors the ranks of a group have together: each may be bound to a
// few of its own, and what matters is whether two have to share one.
#ifndef DISTWRAP_BACKENDS_SHM_PROCESSORS_H_
#define DISTWRAP_BACKENDS_SHM_PROCESSORS_H_

#include <cstddef>
#include <cstdint>

namespace shm_backend {

// Goes from rank to rank as it is, and has to fit a note on the board beside
// what else a group is split with. Processors from 256 on count as those below.
struct Processors {
  static constexpr size_t kWords = 4;
  uint64_t set[kWords];
  uint64_t at_once;  // how many the control group lets run at a time

  // Of this thread and those that it will make.
  static Processors usable();
  void add(const Processors& other);
  int count() const;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_PROCESSORS_H_
