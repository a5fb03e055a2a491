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

struct Interval {
  double low = 0;
  double high = 0;
};

// Where the median of what the values were drawn from lies with 95 %, from
// their order alone: whatever the distribution is. Fewer than six cannot tell:
// all of them then.
Interval median_interval(std::vector<double> values);

// Half of the interval over the middle; infinite for no values or 0.
double relative_error(const Interval& interval, double middle);

// Two contestants that took turns: the median over rounds of a[i] / b[i], with
// the 95 % interval that a seeded bootstrap over the rounds gives. Pairs whose
// second time is 0 are left out.
Ratio paired_ratio(absl::Span<const double> a, absl::Span<const double> b,
                   uint64_t seed = 1);

struct Difference {
  double median = 0;
  double low = 0;  // of the interval
  double high = 0;
};

// Likewise: the median over rounds of a[i] - b[i], with median_interval.
Difference paired_difference(absl::Span<const double> a,
                             absl::Span<const double> b);

// Two runs that did not: median of a / median of b, with the 95 % interval of
// a bootstrap of each.
Ratio unpaired_ratio(absl::Span<const double> a, absl::Span<const double> b,
                     uint64_t seed = 1);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_STATISTICS_H_
