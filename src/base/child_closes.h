// File descriptors and shared memory that the child of a fork must not keep:
// the descriptors would hide the parent's end from its peers, and the memory
// would outlive the parent.
//
// Before fork returns in the child, each descriptor becomes one of /dev/null
// and each mapping becomes one of zeros. Their numbers and addresses stay
// taken, so an owner that is destroyed in the child closes nothing that was
// opened since. Programs started in other ways (vfork, posix_spawn) do not get
// the descriptors, because exec closes them. A child that is forked between the
// opening and `add`, or between `remove` and the closing, keeps the descriptor.
//
// Threads: any. Ownership: none.
#ifndef DISTWRAP_SRC_BASE_CHILD_CLOSES_H_
#define DISTWRAP_SRC_BASE_CHILD_CLOSES_H_

#include <cstddef>

namespace distwrap::base {

class ChildCloses {
 public:
  // Called after the opening. Descriptors above 65,535 are not tracked and stay
  // open in the child.
  static void add(int descriptor);
  // Called before the closing.
  static void remove(int descriptor);
  // Adds and removes a shared mapping; at most 64 are tracked.
  static void add(void* pages, size_t bytes);
  static void remove(void* pages);
};

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_CHILD_CLOSES_H_
