// The machine's own limits, measured together with the contestants.
//
// Threads: each rank makes the same calls; measure_latency starts threads for a
// moment.
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
  double wake_up_us = 0;    // until a sleeping thread runs
};

// Measured between two threads on the first two cores that this process may
// use; zeros when it has only one core.
Latency measure_latency();

class LimitProbe {
 public:
  // Collective, as are all calls. Rank 0 measures the latencies before it is
  // bound to one core.
  static absl::StatusOr<LimitProbe> make(SideChannel& side);

  const Latency& latency() const { return latency_; }

  // The shortest possible time for `spec` in microseconds: all ranks copy the
  // bytes of their larger buffers at the same time and, with more than one
  // rank, one cache line changes hands.
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
