// The door of libdistwrap_guard.so, which the process may have preloaded.
//
// Threads: any.
#ifndef DISTWRAP_SRC_BASE_GUARD_DOOR_H_
#define DISTWRAP_SRC_BASE_GUARD_DOOR_H_

#include "sdk/guard_door.h"

#include <absl/status/statusor.h>

#include <string>

namespace distwrap::base {

// The process's door; null without one. kDirectCall with both files for a door
// of another version.
absl::StatusOr<const dw_guard_door*> guard_door();

// The file of the door; empty without one.
std::string guard_door_file();

// Says that this thread does distwrap's own work outside of calls on a
// communicator: it makes or ends one, or is a thread of the library. Engines
// may then call others below them. Nests; costs an addition.
class OwnWork {
 public:
  OwnWork() { ++depth_; }
  ~OwnWork() { --depth_; }
  OwnWork(const OwnWork&) = delete;
  OwnWork& operator=(const OwnWork&) = delete;
  static bool is_here() { return depth_ != 0; }

 private:
  static inline thread_local int depth_ = 0;
};

// Lets the module of an address call what is guarded, if there is a door.
void let_module_pass(const void* address);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_GUARD_DOOR_H_
