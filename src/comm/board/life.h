// Whether another process still lives, by one load.
//
// A robust lock in shared memory that the session's thread holds as long as it
// runs: the kernel marks the lock of a thread that ends with it, however it
// ends, also by SIGKILL. A child that the process has forked does not have the
// lock. This costs no descriptor and no call to the kernel; a process
// descriptor (pidfd), the other way, costs one for each peer and a poll for
// each look. The others never touch the lock but to read its first word, whose
// meaning is the kernel's (robust futexes): so what stands in it can harm
// nobody. Threads: hold and let_go from one and the same.
#ifndef DISTWRAP_SRC_COMM_BOARD_LIFE_H_
#define DISTWRAP_SRC_COMM_BOARD_LIFE_H_

#include <pthread.h>

namespace distwrap::comm {

// Prepares the lock; false when the system has no such locks.
bool make_life(pthread_mutex_t* life);
// By the thread that stands for the process.
void hold_life(pthread_mutex_t* life);
void let_go_life(pthread_mutex_t* life);
// Of another's: whether its holder has ended without letting go.
bool has_ended(const pthread_mutex_t& life);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_LIFE_H_
