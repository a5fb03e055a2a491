// Statistics of measured times.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_STATISTICS_H_
#define DISTWRAP_TOOLS_CLI_BENCH_STATISTICS_H_

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

namespace distwrap::bench {

// The value below which a `fraction` of the sorted values lies: the element at
// floor(fraction * n), the last one for 1. 0 without values.
double percentile(absl::Span<const double> sorted, double fraction);

// The median; for an even number of values, the mean of the two in the middle.
double median(std::vector<double> values);

struct Ratio {
  double median = 0;
  double low = 0;  // low end of the interval
  double high = 0;
};

struct Interval {
  double low = 0;
  double high = 0;
};

// The 95 % interval of the median of the underlying distribution, from the
// order of the values alone, without an assumption about the distribution. For
// fewer than six values, the range of all values.
Interval median_interval(std::vector<double> values);

// Half of the interval's width over the middle; infinite without values or for
// 0.
double relative_error(const Interval& interval, double middle);

// The ratio of two contestants that took turns: the median over the rounds of
// a[i] / b[i], with a 95 % interval from a seeded bootstrap over the rounds.
// Pairs whose second time is 0 are left out.
Ratio paired_ratio(absl::Span<const double> a, absl::Span<const double> b,
                   uint64_t seed = 1);

struct Difference {
  double median = 0;
  double low = 0;  // low end of the interval
  double high = 0;
};

// The median over the rounds of a[i] - b[i], with median_interval.
Difference paired_difference(absl::Span<const double> a,
                             absl::Span<const double> b);

// The ratio of two runs that did not take turns: median of a / median of b,
// with a 95 % interval from a bootstrap of both.
Ratio unpaired_ratio(absl::Span<const double> a, absl::Span<const double> b,
                     uint64_t seed = 1);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_STATISTICS_H_
