// Whether another process still lives, by one load.
//
// A robust lock in shared memory that the session's thread holds as long as it
// runs: the kernel marks the lock of a thread that ends with it, however it
// ends, also by SIGKILL. A child that the process has forked does not have the
// lock. This costs no descriptor and no call to the kernel; a process
// descriptor (pidfd), the other way, costs one for each peer and a poll for
// each look.
//
// Of the lock only its first words are shared, whose meaning is the kernel's
// (robust futexes), and which the others read. The rest is the C library's:
// what kind of lock it is, and where it stands in its thread's list, by
// pointers. So the lock begins in the last bytes of a shared page and ends in a
// page of this process alone, mapped behind it: whatever a neighbour writes, no
// pointer is followed that it could have written.
// Threads: hold and let_go from one and the same; the rest any.
#ifndef DISTWRAP_SRC_COMM_BOARD_LIFE_H_
#define DISTWRAP_SRC_COMM_BOARD_LIFE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <pthread.h>

namespace distwrap::comm {

// The last bytes of a page.
struct LifeWords {
  std::atomic<uint32_t> futex;
  uint32_t count;  // the C library's; not used
};

class Life {
 public:
  // Whose words end the page at `at` of `memory`. Null when the system has no
  // such locks.
  static std::unique_ptr<Life> make(int memory, size_t at);
  ~Life();
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  // By the thread that stands for the process.
  void hold();
  void let_go();

 private:
  explicit Life(char* pages) : pages_(pages) {}
  pthread_mutex_t* lock() const;
  LifeWords& words() const;

  char* const pages_;
  bool held_ = false;
  uint32_t word_ = 0;  // as it is while held
};

// Of another's: whether its holder has ended without letting go.
bool has_ended(const LifeWords& life);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_LIFE_H_
