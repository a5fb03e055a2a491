#include "base/fork_mark.h"

#include <absl/strings/str_cat.h>

#include <pthread.h>

namespace distwrap::base {

std::atomic<uint32_t> ForkMark::forks_{0};

// Registered at load time: a child that is forked while another thread
// registers it would wait for that thread.
const int ForkMark::watched_ = pthread_atfork(
    nullptr, nullptr, [] { forks_.fetch_add(1, std::memory_order_relaxed); });

ForkMark::ForkMark() : made_(forks_.load(std::memory_order_relaxed)) {}

ErrorInfo of_parent(const char* what) {
  return {.reason = Reason::kForkedChild,
          .what = absl::StrCat(what, " belongs to the parent of this process"),
          .next_step =
              "start a session of its own in the child, or fork "
              "before the first"};
}

}  // namespace distwrap::base
