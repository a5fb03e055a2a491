// What a rank needs to reduce the others' elements where they lie, beside a way
// into their memory (reach.h): room near the processor for pieces of it.
//
// Threads: of the one that runs collectives.
#ifndef DISTWRAP_BACKENDS_SHM_DIRECT_H_
#define DISTWRAP_BACKENDS_SHM_DIRECT_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace shm_backend {

class Direct {
 public:
  // False: there is no memory.
  bool prepare(int size);

  // For a piece of every other rank; how large one is, without the line that it
  // may begin in.
  char* scratch() const { return scratch_.get(); }
  size_t piece_bytes() const { return piece_bytes_; }

  // Where no input has to be copied two ranks each reduce everything, up to
  // this: more than the second-level cache has, but not much.
  static constexpr size_t kFirstShared = 8 << 20;

  // A call goes through its elements from the other end than the last one did:
  // what that has left in the caches is read before it is driven out. The same
  // on all ranks.
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
