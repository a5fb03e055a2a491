// Drives a backend that has no threads of its own while operations are in
// flight, so that callbacks and event descriptors of a Work fire although no
// thread waits. Runs on the session's thread, which sleeps on the backend's
// descriptor (slots wait_fd and arm), else polls at growing intervals.
//
// Threads: any. Ownership: of its backend instance, which every operation in
// flight keeps.
#ifndef DISTWRAP_SRC_COMM_PROGRESS_DRIVER_H_
#define DISTWRAP_SRC_COMM_PROGRESS_DRIVER_H_

#include "comm/watchdog.h"

#include <absl/time/time.h>

#include <atomic>
#include <functional>
#include <memory>

namespace distwrap::comm {

class ProgressDriver final : private Watchdog::Watch {
 public:
  // `work` calls the backend's `progress` and returns how many events it
  // handled. `arm` prepares `fd` for sleeping and returns false when there is
  // work at once; without a descriptor (-1) it is not called.
  ProgressDriver(std::shared_ptr<Watchdog> watchdog, std::function<int()> work,
                 int fd, std::function<bool()> arm);
  ~ProgressDriver() override;
  ProgressDriver(const ProgressDriver&) = delete;
  ProgressDriver& operator=(const ProgressDriver&) = delete;

  // An operation is in flight, from `begin` to `end`.
  void begin();
  void end() { in_flight_.fetch_sub(1, std::memory_order_release); }
  // The backend has something to do now.
  void wake();

 private:
  static constexpr absl::Duration kFirstNap = absl::Microseconds(50);
  static constexpr absl::Duration kLongestNap = absl::Milliseconds(2);
  // A descriptor wakes the thread; this is for events that it missed.
  static constexpr absl::Duration kLongestSleep = absl::Milliseconds(100);

  Deadline expired() override;

  const std::shared_ptr<Watchdog> watchdog_;
  const std::function<int()> work_;
  const int fd_;
  const std::function<bool()> arm_;
  std::atomic<int> in_flight_{0};
  std::atomic<bool> driving_{false};
  absl::Duration nap_ = kFirstNap;  // the pause of the session's thread
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_PROGRESS_DRIVER_H_
