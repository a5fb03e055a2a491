// Whether this is still the process in which something was made, or the child
// of a fork, which has its memory but neither its threads nor its peers.
//
// Threads: any.
#ifndef DISTWRAP_SRC_BASE_FORK_MARK_H_
#define DISTWRAP_SRC_BASE_FORK_MARK_H_

#include "distwrap/status.h"

#include <atomic>
#include <cstdint>

namespace distwrap::base {

class ForkMark {
 public:
  ForkMark();
  // In a child of the process that made it.
  bool is_of_parent() const {
    return made_ != forks_.load(std::memory_order_relaxed);
  }

 private:
  static std::atomic<uint32_t> forks_;  // between the first process and this
  static const int watched_;
  const uint32_t made_;
};

// What is said of `what`, which belongs to the parent.
ErrorInfo of_parent(const char* what);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_FORK_MARK_H_
