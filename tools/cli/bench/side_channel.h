// The channel through which the ranks of a measurement agree and meet. All
// contestants use the same one, so that none profits from its own barrier.
//
// Threads: used by one. Every rank makes the same calls in the same order.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_SIDE_CHANNEL_H_
#define DISTWRAP_TOOLS_CLI_BENCH_SIDE_CHANNEL_H_

#include "distwrap/store.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace distwrap::bench {

class SideChannel {
 public:
  // Each exchange ends within `timeout`. Keys in the store begin with `name`.
  SideChannel(std::shared_ptr<Store> store, std::string name, int rank,
              int ranks, absl::Duration timeout);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Every rank's blob, by rank.
  absl::StatusOr<std::vector<std::string>> exchange(absl::string_view mine);
  absl::Status barrier();
  // Replaces each element by its maximum over the ranks.
  absl::Status max(std::vector<double>& values);
  absl::StatusOr<int64_t> sum(int64_t value);
  // Waits for the status of all ranks; all ranks get all errors, marked as
  // agreed.
  absl::Status agree(const absl::Status& mine);
  // Whether the status comes from `agree`, so that every rank has it.
  static bool agreed(const absl::Status& status);

 private:
  std::string key(int64_t turn, int rank) const;

  std::shared_ptr<Store> store_;
  std::string name_;
  int rank_;
  int ranks_;
  absl::Duration timeout_;
  int64_t turn_ = 0;
};

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_SIDE_CHANNEL_H_
