// A memory barrier in every running thread of this process (membarrier(2)). One
// thread pays for it, so that the others need no barrier of their own: where a
// thread stores one word and loads another, it keeps the compiler from
// exchanging the two, and the thread that needs to know calls this between its
// own store and load. C++ only.
//
// Threads: any.
#ifndef DISTWRAP_PLUGINS_SDK_PROCESS_BARRIER_H_
#define DISTWRAP_PLUGINS_SDK_PROCESS_BARRIER_H_

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dw_sdk {

// Whether the kernel has the barrier. The first call asks for its fast form.
inline bool has_process_barrier() {
  static const bool has =
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0,
              0) == 0;
  return has;
}

// Returns when every other thread has passed a barrier. False where the kernel
// has none. Precondition: has_process_barrier() was called in this process.
inline bool process_barrier() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_PROCESS_BARRIER_H_
