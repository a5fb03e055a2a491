#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

namespace distwrap::bench {

namespace {

constexpr int kResamples = 2000;

// The median of a random sample, with replacement, of the same size.
double resampled_median(absl::Span<const double> values,
                        std::mt19937_64& random, std::vector<double>& scratch) {
  std::uniform_int_distribution<size_t> pick(0, values.size() - 1);
  scratch.resize(values.size());
  for (double& value : scratch) value = values[pick(random)];
  return median(scratch);
}

Ratio with_interval(double middle, std::vector<double> resampled) {
  std::sort(resampled.begin(), resampled.end());
  return {middle, percentile(resampled, 0.025), percentile(resampled, 0.975)};
}

}  // namespace

double percentile(absl::Span<const double> sorted, double fraction) {
  if (sorted.empty()) return 0;
  const auto at =
      static_cast<size_t>(fraction * static_cast<double>(sorted.size()));
  return sorted[std::min(at, sorted.size() - 1)];
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Interval median_interval(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  // The k-th values from both ends enclose the median, except with twice the
  // probability that at most k - 1 of n values fall on one side.
  size_t k = 0;
  double chance = std::pow(0.5, static_cast<double>(n));
  double outside = chance;
  while (k + 1 < (n + 1) / 2 && 2 * outside <= 0.05) {
    ++k;
    chance *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    outside += chance;
  }
  const size_t at = k == 0 ? 0 : k - 1;
  return {values[at], values[n - 1 - at]};
}

double relative_error(const Interval& interval, double middle) {
  if (!(middle > 0)) return std::numeric_limits<double>::infinity();
  return (interval.high - interval.low) / 2 / middle;
}

Ratio paired_ratio(absl::Span<const double> a, absl::Span<const double> b,
                   uint64_t seed) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (b[i] > 0) ratios.push_back(a[i] / b[i]);
  }
  if (ratios.empty()) return {};

  std::mt19937_64 random(seed);
  std::vector<double> medians, scratch;
  for (int i = 0; i < kResamples; ++i) {
    medians.push_back(resampled_median(ratios, random, scratch));
  }
  return with_interval(median(ratios), std::move(medians));
}

Difference paired_difference(absl::Span<const double> a,
                             absl::Span<const double> b) {
  std::vector<double> differences;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    differences.push_back(a[i] - b[i]);
  }
  const Interval interval = median_interval(differences);
  return {median(differences), interval.low, interval.high};
}

Ratio unpaired_ratio(absl::Span<const double> a, absl::Span<const double> b,
                     uint64_t seed) {
  const double below = median({b.begin(), b.end()});
  if (a.empty() || !(below > 0)) return {};
  std::mt19937_64 random(seed);
  std::vector<double> ratios, scratch;
  for (int i = 0; i < kResamples; ++i) {
    const double above = resampled_median(a, random, scratch);
    const double under = resampled_median(b, random, scratch);
    if (under > 0) ratios.push_back(above / under);
  }
  return with_interval(median({a.begin(), a.end()}) / below, std::move(ratios));
}

}  // namespace distwrap::bench
