// Whether the processes of the other ranks still live.
//
// Threads: `lost` from any.
#ifndef DISTWRAP_BACKENDS_SHM_WATCH_H_
#define DISTWRAP_BACKENDS_SHM_WATCH_H_

#include "segment.h"

#include <vector>

namespace shm_backend {

class Watch {
 public:
  // `process` of a rank is a descriptor that becomes readable when it ends.
  void add(int rank, Descriptor process);

  // A rank whose process has ended, -1 for none.
  int lost() const;

 private:
  struct Process {
    int rank;
    Descriptor fd;
  };
  std::vector<Process> processes_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_WATCH_H_
