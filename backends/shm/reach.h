// Reading and writing the memory of a peer's process in place: one copy where
// staging takes two. The kernel may refuse it (ptrace rules, another pid
// namespace); whether it works is tried once, on a word that only the peer's
// own memory can hold. Ranks of one process read each other so, too: an address
// that a neighbour has spoilt is an error and no crash.
//
// Threads: one at a time; any once it is known that it `works`.
#ifndef DISTWRAP_BACKENDS_SHM_REACH_H_
#define DISTWRAP_BACKENDS_SHM_REACH_H_

#include "room.h"

#include <cstddef>
#include <cstdint>

namespace shm_backend {

class Reach {
 public:
  void attach(const Room& room, int peer) {
    room_ = &room;
    peer_ = peer;
  }
  // Whether it can be read. Tried at the first call.
  bool works();
  // Whether it can be written as well. Tried at each call.
  bool writes();

  enum class Got {
    kAll,
    kGone,     // its process has ended, or is about to
    kNonsense  // there is no such memory
  };
  // `from` is an address of the peer's. What is loaded after it has returned is
  // not older than what was read.
  Got read(void* to, uint64_t from, size_t bytes) const;
  // `to` is an address of the peer's.
  Got write(uint64_t to, const void* from, size_t bytes) const;
  // To where the lane to the peer says, and as much as that says: the kernel
  // looks there when it begins.
  Got write(const Lane& lane, const void* from, size_t bytes) const;

 private:
  bool try_out();

  const Room* room_ = nullptr;
  int peer_ = 0;
  enum class Way { kUnknown, kNone, kKernel };
  Way way_ = Way::kUnknown;
  int32_t process_ = 0;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_REACH_H_
