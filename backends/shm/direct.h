// What a rank needs to reduce the others' elements where they lie, beside a way
// into their memory (reach.h): room near the processor for pieces of it, and to
// know whether it pays.
//
// Threads: of the one that runs collectives.
#ifndef DISTWRAP_BACKENDS_SHM_DIRECT_H_
#define DISTWRAP_BACKENDS_SHM_DIRECT_H_

#include "trial.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace shm_backend {

class Direct {
 public:
  // False: there is no memory.
  bool prepare(int size);

  // For a piece of every other rank; how large one is.
  char* scratch() const { return scratch_.get(); }
  size_t piece_bytes() const { return piece_bytes_; }

  // Operations of a size that gain or lose by it, as it comes: from `least` on.
  Trial& trial(size_t bytes, size_t least);

  // Where no input has to be copied two ranks each reduce everything, up to
  // this: more than the second-level cache has, but not much.
  static constexpr size_t kFirstShared = 8 << 20;

  // A call goes through its elements from the other end than the last one did:
  // what that has left in the caches is read before it is driven out. The same
  // on all ranks.
  bool turn() { return backwards_ = !backwards_; }

 private:
  std::unique_ptr<char[]> scratch_;
  size_t piece_bytes_ = 0;
  static constexpr size_t kRows = 10;
  Trial trials_[kRows];  // each of twice the size
  bool backwards_ = false;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_DIRECT_H_
