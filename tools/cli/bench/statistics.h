// What is said about many measured times.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_STATISTICS_H_
#define DISTWRAP_TOOLS_CLI_BENCH_STATISTICS_H_

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace distwrap::bench {

// The value below which a `fraction` of the sorted ones lies: the element at
// floor(fraction * n), the last for 1. 0 of none.
double percentile(absl::Span<const double> sorted, double fraction);

// Of an even number the mean of the two in the middle.
double median(std::vector<double> values);

struct Ratio {
  double median = 0;
  double low = 0;  // of the interval
  double high = 0;
};

// Two contestants that took turns: the median over rounds of a[i] / b[i], with
// the 95 % interval that a seeded bootstrap over the rounds gives. Pairs whose
// second time is 0 are left out.
Ratio paired_ratio(absl::Span<const double> a, absl::Span<const double> b,
                   uint64_t seed = 1);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_STATISTICS_H_
