// Tells whether the processes of a group segment's ranks still live.
//
// Threads: one until all processes are added, then any.
#ifndef DISTWRAP_BACKENDS_SHM_WATCH_H_
#define DISTWRAP_BACKENDS_SHM_WATCH_H_

#include "hostmem/segment.h"

#include <vector>

namespace shm_backend {

using dw_hostmem::Descriptor;

class Watch {
 public:
  // `process` is a descriptor that becomes readable when that process ends.
  void add(Descriptor process, const std::vector<int>& ranks);

  // The first of these ranks whose process has ended, as its place among them;
  // -1 for none.
  int lost(const std::vector<int>& ranks) const;
  // Whether the process of `rank` has ended.
  bool has_ended(int rank) const;

 private:
  // The descriptor of a rank's process; -1: not watched.
  int descriptor_of(int rank) const;

  std::vector<Descriptor> processes_;
  std::vector<int> process_of_;  // by rank; -1: not watched
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_WATCH_H_
