// Tells whether this is still the process in which an object was made, or the
// child of a fork. The child has the object's memory but neither its threads
// nor its peers.
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
  // Whether this process is a child of the process that made the object.
  bool is_of_parent() const {
    return made_ != forks_.load(std::memory_order_relaxed);
  }

 private:
  static std::atomic<uint32_t> forks_;  // forks between the first process and
                                        // this one
  static const int watched_;
  const uint32_t made_;
};

// The error for using `what`, which belongs to the parent process.
ErrorInfo of_parent(const char* what);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_FORK_MARK_H_
