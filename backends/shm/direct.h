// Zero-copy reductions: the scratch memory near the processor into which a rank
// reads pieces of the other ranks' inputs (by reach.h).
//
// Threads: the one that runs collectives.
#ifndef DISTWRAP_BACKENDS_SHM_DIRECT_H_
#define DISTWRAP_BACKENDS_SHM_DIRECT_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace shm_backend {

class Direct {
 public:
  // Allocates the scratch memory. False: there is none.
  bool prepare(int size);

  // Scratch memory for a piece of every other rank, and the size of a piece
  // without the line in which it may begin.
  char* scratch() const { return scratch_.get(); }
  size_t piece_bytes() const { return piece_bytes_; }

  // Up to this many bytes each of two ranks reduces all elements if no input
  // has to be copied. The limit is a little more than the second-level cache.
  static constexpr size_t kFirstShared = 8 << 20;

  // Switches the direction: a call walks through its elements from the end
  // where the last call stopped, and so reads what that call left in the
  // caches. All ranks switch alike.
  bool turn() { return backwards_ = !backwards_; }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  std::unique_ptr<char[], Free> scratch_;
  size_t piece_bytes_ = 0;
  bool backwards_ = false;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_DIRECT_H_
