// How much memory the control groups of this process leave.
#ifndef DISTWRAP_BACKENDS_SHM_HEADROOM_H_
#define DISTWRAP_BACKENDS_SHM_HEADROOM_H_

#include <cstdint>
#include <string>

namespace shm_backend {

struct Headroom {
  bool limited = false;
  uint64_t free_bytes = 0;   // of the tightest group
  uint64_t limit_bytes = 0;  // that group's
};

// What cannot be read does not limit. `proc_cgroup` has the form of
// /proc/self/cgroup, `mount` is where the hierarchies are.
Headroom read_headroom(const std::string& proc_cgroup = "/proc/self/cgroup",
                       const std::string& mount = "/sys/fs/cgroup");

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_HEADROOM_H_
