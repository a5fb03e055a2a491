// Keeps a rank that only takes from the heels of the one that gives.
//
// Where calls follow each other in which data go one way, and the taker is the
// faster one, it finds nothing each time, and then takes each line as it is
// being written: the giver has to take back what was looked at too early, and
// data come out of its first-level cache, slowest of all. Once in a while the
// taker waits a little longer than it has to. The giver is some calls ahead
// then, whose lines come together. (The temporal slipping of FastForward,
// Giacomoni et al. 2008.)
//
// Threads: of the one that runs collectives.
#ifndef DISTWRAP_BACKENDS_SHM_PACE_H_
#define DISTWRAP_BACKENDS_SHM_PACE_H_

#include "distwrap/abi/plugin.h"
#include "wait.h"

#include <cstdint>

namespace shm_backend {

class Pace {
 public:
  // So often, without having waited for long, and then once so much longer: a
  // call of many takes 500 ns longer on average, at most.
  static constexpr int kOften = 4;
  static constexpr int64_t kSlipNs = 2'000;

  // Nothing had been shown when a call looked that shows nothing itself.
  void was_early(const dw_host_api& host) {
    if (++early_ < kOften) return;
    early_ = 0;
    const int64_t until = host.now_ns(host.self) + kSlipNs;
    while (host.now_ns(host.self) < until) pause();
  }
  // Nor was it soon: calls do not follow each other.
  void waits() { early_ = 0; }

 private:
  int early_ = 0;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_PACE_H_
