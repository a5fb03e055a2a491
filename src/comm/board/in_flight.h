// The operations of a group that run while their caller does other work. The
// oldest of them is shown to the other ranks.
//
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_BOARD_IN_FLIGHT_H_
#define DISTWRAP_SRC_COMM_BOARD_IN_FLIGHT_H_

#include "base/mutex.h"

#include <algorithm>
#include <cstdint>
#include <deque>

namespace distwrap::comm {

class InFlight {
 public:
  // Numbers rise from call to call.
  void add(uint64_t number) {
    base::MutexLock lock(mutex_);
    flights_.push_back({number, false});
  }
  // Operations may end in any order, even ones that are not listed any more. A
  // number that was taken back may be listed twice, until both operations have
  // ended.
  void end(uint64_t number) {
    base::MutexLock lock(mutex_);
    auto flight = std::lower_bound(
        flights_.begin(), flights_.end(), number,
        [](const Flight& one, uint64_t n) { return one.number < n; });
    while (flight != flights_.end() && flight->number == number &&
           flight->ended)
      ++flight;
    if (flight != flights_.end() && flight->number == number)
      flight->ended = true;
    while (!flights_.empty() && flights_.front().ended) flights_.pop_front();
  }
  // 0 when there is none.
  uint64_t oldest() const {
    base::MutexLock lock(mutex_);
    return flights_.empty() ? 0 : flights_.front().number;
  }

 private:
  struct Flight {
    uint64_t number;
    bool ended;
  };
  mutable base::Mutex mutex_;
  std::deque<Flight> flights_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_BOARD_IN_FLIGHT_H_
