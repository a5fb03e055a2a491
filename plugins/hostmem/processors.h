// The processors that the ranks of a host have together: each rank may be bound
// to a few of its own, and the question is whether two ranks share one.
//
// Threads: any. Ownership: a value. Errors: none; a rank that cannot read its
// processors counts one.
#ifndef DISTWRAP_PLUGINS_HOSTMEM_PROCESSORS_H_
#define DISTWRAP_PLUGINS_HOSTMEM_PROCESSORS_H_

#include <cstddef>
#include <cstdint>

namespace dw_hostmem {

// A part of setup messages, as it is. It has to fit a note on the board beside
// the rest of such a message. Processors from 256 on count as those below.
struct Processors {
  static constexpr size_t kWords = 4;
  uint64_t set[kWords];
  uint64_t at_once;  // number that the control group lets run at a time

  // The processors of this thread and of the threads that it will make.
  static Processors usable();
  void add(const Processors& other);
  int count() const;
};

}  // namespace dw_hostmem

#endif  // DISTWRAP_PLUGINS_HOSTMEM_PROCESSORS_H_
