// The wishes that the sessions of a process have of the guard.
//
// Threads: any.
#ifndef DISTWRAP_SRC_GROUP_GUARD_H_
#define DISTWRAP_SRC_GROUP_GUARD_H_

#include "base/fork_mark.h"
#include "distwrap/guard.h"

#include <absl/status/statusor.h>

#include <utility>

namespace distwrap::group {

// One session's wish. The strictest wish of the living ones decides for the
// process, and without any the door is open.
class GuardHold {
 public:
  // kDirectCall: kRequire without a door, or a door of another version.
  static absl::StatusOr<GuardHold> take(GuardMode mode);

  GuardHold() = default;
  GuardHold(GuardHold&& other) noexcept
      : mode_(std::exchange(other.mode_, GuardMode::kOff)) {}
  GuardHold& operator=(GuardHold&& other) noexcept {
    std::swap(mode_, other.mode_);
    return *this;
  }
  ~GuardHold();

 private:
  explicit GuardHold(GuardMode mode) : mode_(mode) {}

  base::ForkMark process_;
  GuardMode mode_ = GuardMode::kOff;
};

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GUARD_H_
