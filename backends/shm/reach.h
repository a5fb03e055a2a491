// Cross-memory attach (CMA): reads and writes the memory of a peer's process in
// place, with one copy where staging takes two. The kernel may refuse it
// (ptrace rules, another pid namespace), so it is tried once, on a word that
// only the peer's own memory can hold. Ranks of one process use it between each
// other too, so that an address spoilt by another rank is an error and no
// crash.
//
// Threads: one at a time until `works` has returned true, then any.
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
  // Whether the peer's memory can be read. Tried at the first call.
  bool works();
  // Whether the peer's memory can also be written. Tried at each call.
  bool writes();

  enum class Got {
    kAll,
    kGone,     // the peer's process has ended
    kNonsense  // the address is not valid
  };
  // `from` is an address in the peer's process. Loads after the return are not
  // older than the bytes that were read.
  Got read(void* to, uint64_t from, size_t bytes) const;
  // `to` is an address in the peer's process.
  Got write(uint64_t to, const void* from, size_t bytes) const;
  // Writes to the place and length in the lane to the peer, which the kernel
  // reads when it begins.
  Got write(const CmaPiece& lane, const void* from, size_t bytes) const;

 private:
  bool try_out();

  const Room* room_ = nullptr;
  int peer_ = 0;
  enum class Access { kUnknown, kNone, kKernel };
  Access access_ = Access::kUnknown;
  int32_t process_ = 0;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_REACH_H_
