#include "bench/contestant.h"

#include "distwrap/deadline.h"

namespace distwrap::bench {

absl::Status TimedCall::timed(const Loop& loop, absl::Span<int64_t> ns) {
  int64_t last = Deadline::now_ns();
  while (last < loop.start_at) last = Deadline::now_ns();
  for (int64_t& took : ns) {
    absl::Status status = repeat(loop.batch);
    if (!status.ok()) return status;
    const int64_t now = Deadline::now_ns();
    took = now - last;
    last = now;
  }
  return absl::OkStatus();
}

}  // namespace distwrap::bench
