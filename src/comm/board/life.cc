#include "comm/board/life.h"

#include <cstddef>
#include <cstdint>
#include <linux/futex.h>

namespace distwrap::comm {

bool make_life(pthread_mutex_t* life) {
  pthread_mutexattr_t how;
  if (pthread_mutexattr_init(&how) != 0) return false;
  const bool made =
      pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0 &&
      pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED) == 0 &&
      pthread_mutex_init(life, &how) == 0;
  pthread_mutexattr_destroy(&how);
  return made;
}

void hold_life(pthread_mutex_t* life) { pthread_mutex_lock(life); }

void let_go_life(pthread_mutex_t* life) { pthread_mutex_unlock(life); }

bool has_ended(const pthread_mutex_t& life) {
  // The futex is glibc's first member: part of its binary interface.
  static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0);
  const auto word = __atomic_load_n(reinterpret_cast<const uint32_t*>(&life),
                                    __ATOMIC_ACQUIRE);
  return (word & FUTEX_OWNER_DIED) != 0;
}

}  // namespace distwrap::comm
