// A point in time on the monotonic clock by which something has to end.
//
// Threads and ownership: a plain value. Changes of the wall clock do not move
// it.
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
  // A deadline that never passes.
  constexpr Deadline() = default;
  static constexpr Deadline never() { return Deadline(); }
  // `timeout` from now. InfiniteDuration never passes; a negative timeout has
  // already passed.
  static Deadline after(absl::Duration timeout);
  // The deadline at `ns` of the clock that `now_ns` reads.
  static constexpr Deadline at_ns(int64_t ns) { return Deadline(ns); }

  // The current CLOCK_MONOTONIC in nanoseconds.
  static int64_t now_ns();

  bool is_never() const { return ns_ == kNever; }
  bool passed() const { return ns_ != kNever && now_ns() >= ns_; }
  int64_t ns() const { return ns_; }
  // The remaining time: 0 or more, infinite for a deadline that never passes.
  absl::Duration remaining() const;
  // The remaining time for poll(2), rounded up: -1 for a deadline that never
  // passes, INT_MAX at most.
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
