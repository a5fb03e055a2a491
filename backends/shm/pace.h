// Back-off of a rank that only receives, so that it does not follow too closely
// behind the sender.
//
// When calls follow each other with data in one direction and the receiver is
// faster, it finds nothing at each call and then takes each line while it is
// being written. The sender has to take such lines back, and the data come out
// of its first-level cache, which is slowest. So once in a while the receiver
// waits a little longer than it has to. Then the sender is some calls ahead,
// and its lines come together. (The temporal slipping of FastForward, Giacomoni
// et al. 2008.)
//
// Threads: the one that runs collectives.
#ifndef DISTWRAP_BACKENDS_SHM_PACE_H_
#define DISTWRAP_BACKENDS_SHM_PACE_H_

#include "distwrap/abi/plugin.h"
#include "wait.h"

#include <cstdint>

namespace shm_backend {

class Pace {
 public:
  // After kOften calls that were early and did not wait for long, one call
  // waits kSlipNs longer: 500 ns a call on average, at most.
  static constexpr int kOften = 4;
  static constexpr int64_t kSlipNs = 2'000;

  // A call that publishes nothing itself found nothing published yet.
  void was_early(const dw_host_api& host) {
    if (++early_ < kOften) return;
    early_ = 0;
    const int64_t until = host.now_ns(host.self) + kSlipNs;
    while (host.now_ns(host.self) < until) pause();
  }
  // The data did not come soon either, so calls do not follow each other
  // closely.
  void waits() { early_ = 0; }

 private:
  int early_ = 0;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_PACE_H_
