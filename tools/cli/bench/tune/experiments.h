// What is measured to find the sizes from which on the shm backend goes another
// way (backends/shm/tuning.def), but for those from which on it tries itself:
// for each an all_reduce, with the new way always and never.
//
// Threads: pure functions.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_TUNE_EXPERIMENTS_H_
#define DISTWRAP_TOOLS_CLI_BENCH_TUNE_EXPERIMENTS_H_

#include "bench/layout.h"
#include "bench/statistics.h"

#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::bench {

struct Experiment {
  std::string name = {};  // "sliced_two"
  int64_t usual = 0;      // without a measurement, bytes
  DType dtype = DType::kF32;
  // Sizes of an all_reduce, each twice the one before.
  int64_t least = 0, most = 0;
  // What else would take part at these sizes, out of the way.
  std::string others = {};

  std::vector<int64_t> sizes() const;
  Spec spec(int64_t size, int rank, int ranks) const;
  // Hints with which the new way is always taken, and never.
  std::string always() const;
  std::string never() const;
};

// Those that matter to so many ranks.
std::vector<Experiment> experiments(int ranks);

// The new way's time over the old one's at one size.
struct SizeRatio {
  int64_t size = 0;
  Ratio ratio = {};
};

struct Found {
  int64_t bytes = 0;  // the threshold
  // By how much the sizes between the usual one and this are faster now, the
  // median: 0.1 is a tenth. 0 when it stays.
  double gain = 0;
};

// The usual threshold, moved as far as all sizes on the way are clearly faster
// for it: by 3 %, and by the whole interval. So noise leaves it where it is.
// `points` by size, each twice the one before.
Found find_threshold(int64_t usual, absl::Span<const SizeRatio> points);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TUNE_EXPERIMENTS_H_
