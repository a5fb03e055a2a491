// A point in time on the monotonic clock by which something has to end.
//
// Threads: a value. Wall-clock steps never move it.
//
//   Deadline deadline = Deadline::after(absl::Seconds(5));
//   while (!deadline.passed()) ...
#ifndef DISTWRAP_DEADLINE_H_
#define DISTWRAP_DEADLINE_H_

#include "distwrap/export.h"

#include <absl/time/time.h>

#include <cstdint>
#include <limits>

namespace distwrap {

class DISTWRAP_EXPORT Deadline {
 public:
  // Never.
  constexpr Deadline() = default;
  static constexpr Deadline never() { return Deadline(); }
  // `timeout` from now; InfiniteDuration is never, negative has passed.
  static Deadline after(absl::Duration timeout);
  // At `ns` of the clock that `now_ns` reads.
  static constexpr Deadline at_ns(int64_t ns) { return Deadline(ns); }

  // CLOCK_MONOTONIC, ns.
  static int64_t now_ns();

  bool is_never() const { return ns_ == kNever; }
  bool passed() const { return ns_ != kNever && now_ns() >= ns_; }
  int64_t ns() const { return ns_; }
  // Not negative; infinite for never.
  absl::Duration remaining() const;
  // For poll(2) and friends: rounded up, -1 for never, at most INT_MAX.
  int remaining_ms() const;

  static Deadline earlier(Deadline a, Deadline b) {
    return a.ns_ < b.ns_ ? a : b;
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  constexpr explicit Deadline(int64_t ns) : ns_(ns) {}
  int64_t ns_ = kNever;
};

}  // namespace distwrap

#endif  // DISTWRAP_DEADLINE_H_
