#include "bench/statistics.h"

#include <algorithm>
#include <random>

namespace distwrap::bench {

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

Ratio paired_ratio(absl::Span<const double> a, absl::Span<const double> b,
                   uint64_t seed) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (b[i] > 0) ratios.push_back(a[i] / b[i]);
  }
  if (ratios.empty()) return {};

  constexpr int kResamples = 2000;
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<size_t> pick(0, ratios.size() - 1);
  std::vector<double> medians, sample(ratios.size());
  for (int i = 0; i < kResamples; ++i) {
    for (double& value : sample) value = ratios[pick(random)];
    medians.push_back(median(sample));
  }
  std::sort(medians.begin(), medians.end());
  return {median(ratios), percentile(medians, 0.025),
          percentile(medians, 0.975)};
}

}  // namespace distwrap::bench
