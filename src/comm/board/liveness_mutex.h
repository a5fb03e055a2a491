// Tells whether another process still lives, by one load.
//
// It is a robust mutex in shared memory that the session's thread holds as long
// as it runs. The kernel marks the mutex when that thread ends, however it
// ends, also by SIGKILL. A child that the process has forked does not hold it.
// This costs no descriptor and no system call. The alternative, a process
// descriptor (pidfd), costs a descriptor for each peer and a poll at each look.
//
// Only the first words of the mutex are shared; the kernel defines their
// meaning (robust futexes), and other processes read them. The other members
// belong to the C library, among them pointers into its thread's list. So the
// mutex begins in the last bytes of a shared page and ends in a private page
// that is mapped behind it: whatever another process writes, no pointer that it
// could have written is followed.
#ifndef DISTWRAP_SRC_COMM_BOARD_LIVENESS_MUTEX_H_
#define DISTWRAP_SRC_COMM_BOARD_LIVENESS_MUTEX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <pthread.h>

namespace distwrap::comm {

// The shared words: the last bytes of a page.
struct LivenessWords {
  std::atomic<uint32_t> futex;
  uint32_t count;  // belongs to the C library; not used
};

class LivenessMutex {
 public:
  // A lock whose words end the page at `at` of `memory`. Null when the system
  // has no such locks.
  static std::unique_ptr<LivenessMutex> make(int memory, size_t at);
  ~LivenessMutex();
  LivenessMutex(const LivenessMutex&) = delete;
  LivenessMutex& operator=(const LivenessMutex&) = delete;

  // Called by the thread that represents the process.
  void hold();
  void let_go();

 private:
  explicit LivenessMutex(char* pages) : pages_(pages) {}
  pthread_mutex_t* lock() const;
  LivenessWords& words() const;

  char* const pages_;
  bool held_ = false;
  uint32_t word_ = 0;  // the futex word while the mutex is held
};

// Whether the holder of another rank's lock ended without releasing it.
bool has_ended(const LivenessWords& life);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_LIVENESS_MUTEX_H_
