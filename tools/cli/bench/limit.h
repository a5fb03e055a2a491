// What the machine can do at best, measured beside what is compared with it.
//
// Threads: each rank makes the same calls; measure_hand_over starts a second
// thread for a moment.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_LIMIT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_LIMIT_H_

#include "bench/layout.h"
#include "bench/side_channel.h"

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace distwrap::bench {

struct Latency {
  double hand_over_us = 0;  // a cache line from core to core, one way
  double wake_up_us = 0;    // of a thread that sleeps
};

// Between two threads on the first two cores that this process may use; zeros
// when it has one.
Latency measure_latency();

class LimitProbe {
 public:
  // Collective, as all calls: rank 0 measures the latencies, before it is bound
  // to one core.
  static absl::StatusOr<LimitProbe> make(SideChannel& side);

  const Latency& latency() const { return latency_; }

  // The least time for `spec`, microseconds: every rank copies the bytes of its
  // larger buffer, all at once, and one line changes hands where there is more
  // than one rank.
  absl::StatusOr<double> limit_us(const Spec& spec);

 private:
  LimitProbe(SideChannel& side, Latency latency)
      : side_(&side), latency_(latency) {}
  absl::StatusOr<double> copy_us(int64_t bytes);

  SideChannel* side_;
  Latency latency_;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_LIMIT_H_
