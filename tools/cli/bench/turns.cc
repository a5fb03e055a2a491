#include "bench/turns.h"

#include "distwrap/distwrap.h"

namespace distwrap::bench {
namespace {

absl::Status time_block(const Timed& call, int calls, double* us) {
  absl::Status status = barrier().status();
  const int64_t start = Deadline::now_ns();
  for (int i = 0; status.ok() && i < calls; ++i) status = call();
  *us = static_cast<double>(Deadline::now_ns() - start) / 1e3 / calls;
  return status;
}

}  // namespace

absl::StatusOr<std::vector<std::vector<double>>> take_turns(
    absl::Span<const Timed> contestants, int rounds, int calls) {
  std::vector<std::vector<double>> times(contestants.size());
  for (int round = 0; round <= rounds; ++round)
    for (size_t turn = 0; turn < contestants.size(); ++turn) {
      const size_t who =
          (turn + static_cast<size_t>(round)) % contestants.size();
      double us = 0;
      absl::Status status = time_block(contestants[who], calls, &us);
      if (!status.ok()) return status;
      if (round > 0) times[who].push_back(us);
    }
  return times;
}

}  // namespace distwrap::bench
