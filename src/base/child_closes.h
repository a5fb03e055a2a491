// What the child of a fork does not keep of its parent's: descriptors, which
// would hide the parent's end from its peers, and shared memory, which would
// outlive it.
//
// In the child each descriptor becomes one of /dev/null and each mapping one of
// zeros, before fork returns there. Their numbers and places stay taken, so an
// owner that ends in the child harms nothing that was opened since. Programs
// that are started otherwise (vfork, posix_spawn) get none of them anyway: they
// are closed by exec. A child that is forked between the opening and `add`, or
// between `remove` and the closing, keeps what it has got.
//
// Threads: any. Ownership: none.
#ifndef DISTWRAP_SRC_BASE_CHILD_CLOSES_H_
#define DISTWRAP_SRC_BASE_CHILD_CLOSES_H_

#include <cstddef>

namespace distwrap::base {

class ChildCloses {
 public:
  // Once it is open. Numbers beyond those that are kept note of, 65,536, stay
  // open in the child.
  static void add(int descriptor);
  // Before it is closed.
  static void remove(int descriptor);
  // Likewise of a shared mapping; 64 of them at most.
  static void add(void* pages, size_t bytes);
  static void remove(void* pages);
};

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_CHILD_CLOSES_H_
