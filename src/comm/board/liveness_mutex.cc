#include "comm/board/liveness_mutex.h"

#include "base/child_closes.h"

#include <cerrno>
#include <linux/futex.h>
#include <sys/mman.h>

namespace distwrap::comm {
namespace {

constexpr size_t kPage = 4096;

// glibc's layout is part of its binary interface.
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0);
static_assert(offsetof(pthread_mutex_t, __data.__count) == 4);
static_assert(offsetof(pthread_mutex_t, __data.__owner) ==
              sizeof(LivenessWords));

}  // namespace

std::unique_ptr<LivenessMutex> LivenessMutex::make(int memory, size_t at) {
  constexpr int kProtection = PROT_READ | PROT_WRITE;
  void* const pages =
      mmap(nullptr, 2 * kPage, kProtection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  std::unique_ptr<LivenessMutex> life(
      new LivenessMutex(static_cast<char*>(pages)));
  if (mmap(pages, kPage, kProtection, MAP_SHARED | MAP_FIXED, memory,
           static_cast<off_t>(at)) == MAP_FAILED)
    return nullptr;
  base::ChildCloses::add(pages, kPage);
  pthread_mutexattr_t how;
  if (pthread_mutexattr_init(&how) != 0) return nullptr;
  const bool made =
      pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST) == 0 &&
      pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED) == 0 &&
      pthread_mutex_init(life->lock(), &how) == 0;
  pthread_mutexattr_destroy(&how);
  return made ? std::move(life) : nullptr;
}

LivenessMutex::~LivenessMutex() {
  // A mutex that is still held stands in its thread's list.
  if (held_) return;
  base::ChildCloses::remove(pages_);
  munmap(pages_, 2 * kPage);
}

pthread_mutex_t* LivenessMutex::lock() const {
  return reinterpret_cast<pthread_mutex_t*>(pages_ + kPage -
                                            sizeof(LivenessWords));
}

LivenessWords& LivenessMutex::words() const {
  return *reinterpret_cast<LivenessWords*>(pages_ + kPage -
                                           sizeof(LivenessWords));
}

void LivenessMutex::hold() {
  // The word is overwritten, since another process may have written to it, and
  // this thread must not wait for that process.
  words().futex.store(0, std::memory_order_relaxed);
  const int tried = pthread_mutex_trylock(lock());
  if (tried == EOWNERDEAD) pthread_mutex_consistent(lock());
  held_ = tried == 0 || tried == EOWNERDEAD;
  word_ = words().futex.load(std::memory_order_relaxed);
}

void LivenessMutex::let_go() {
  if (!held_) return;
  // The C library releases only a mutex whose word names its own thread.
  words().futex.store(word_, std::memory_order_relaxed);
  held_ = pthread_mutex_unlock(lock()) != 0;
}

bool has_ended(const LivenessWords& life) {
  return (life.futex.load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
}

}  // namespace distwrap::comm
