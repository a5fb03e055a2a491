// The experiments behind the size thresholds of the shm backend
// (backends/shm/tuning.def), except thresholds that shm finds itself. Each
// experiment measures an all_reduce with the new method always on and always
// off.
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
  int64_t usual = 0;      // default threshold in bytes
  DType dtype = DType::kF32;
  // Sizes of the all_reduce, each twice the previous one.
  int64_t least = 0, most = 0;
  // Settings that keep other methods out of these sizes.
  std::string others = {};

  std::vector<int64_t> sizes() const;
  Spec spec(int64_t size, int rank, int ranks) const;
  // Hints that turn the new method always on, and always off.
  std::string always() const;
  std::string never() const;
};

// The experiments that matter for this number of ranks.
std::vector<Experiment> experiments(int ranks);

// The new method's time divided by the old one's at one size.
struct SizeRatio {
  int64_t size = 0;
  Ratio ratio = {};
};

struct Found {
  int64_t bytes = 0;  // the threshold
  // The median gain of the sizes between the default and this threshold: 0.1 is
  // a tenth. 0 when the default stays.
  double gain = 0;
};

// The default threshold, moved as far as every size on the way becomes clearly
// faster: by 3 % and by the whole interval, so that noise does not move it.
// `points` are sorted by size, each twice the previous one.
Found find_threshold(int64_t usual, absl::Span<const SizeRatio> points);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_TUNE_EXPERIMENTS_H_
