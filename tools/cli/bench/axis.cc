#include "bench/axis.h"

#include "bench/size.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

namespace distwrap::bench {
namespace {

struct Unit {
  double scale;
  const char* name;
};

// The value in the largest unit that gives a number of 1 or more.
template <size_t n>
std::string in_units(double value, const Unit (&units)[n]) {
  size_t best = 0;
  for (size_t i = 0; i < n; ++i) {
    if (value >= units[i].scale * 0.999) best = i;
  }
  return absl::StrFormat("%g %s", value / units[best].scale, units[best].name);
}

// The largest of 1, 2 and 5 times a power of ten that is not above `value`.
double round_down(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  return power * (value >= 5 * power ? 5 : value >= 2 * power ? 2 : 1);
}

// The smallest of 1, 2 and 5 times a power of ten that is not below `value`.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  return power * (value > 5 * power ? 10 : value > 2 * power ? 5 : 2);
}

// An axis with lines at 1, 2 ... 9 of each decade. Decades have labels; so do 2
// and 5 when there are few decades. Some room is left around the curve.
template <size_t n>
LogAxis decimal_axis(double least, double most, const Unit (&units)[n]) {
  const double low = round_down(least * 0.95);
  const double high = round_up(most * 1.05);
  const double decades = std::log10(high / low);
  std::vector<Tick> ticks;
  for (int power = static_cast<int>(std::floor(std::log10(low)));
       std::pow(10, power) <= high * 1.001; ++power) {
    for (int digit = 1; digit <= 9; ++digit) {
      const double value = digit * std::pow(10, power);
      if (value < low * 0.999 || value > high * 1.001) continue;
      const bool labelled =
          digit == 1 || (decades < 2.9 && (digit == 2 || digit == 5));
      ticks.push_back({value, labelled ? in_units(value, units) : ""});
    }
  }
  return {low, high, std::move(ticks)};
}

}  // namespace

LogAxis::LogAxis(double low, double high, std::vector<Tick> ticks)
    : low_(low), high_(high), ticks_(std::move(ticks)) {}

double LogAxis::place(double value) const {
  return std::log(value / low_) / std::log(high_ / low_);
}

LogAxis byte_axis(double least, double most) {
  const double low = std::exp2(std::floor(std::log2(least)));
  double high = std::exp2(std::ceil(std::log2(most)));
  if (high <= low) high = low * 2;
  const auto doublings = static_cast<int>(std::lround(std::log2(high / low)));
  const int step = (doublings + 7) / 8;
  std::vector<Tick> ticks;
  for (int i = 0; i <= doublings; ++i) {
    const double value = low * std::exp2(i);
    const bool labelled = i % step == 0;
    ticks.push_back(
        {value, labelled ? format_size(static_cast<int64_t>(value)) : ""});
  }
  return {low, high, std::move(ticks)};
}

LogAxis time_axis(double least_us, double most_us) {
  static constexpr Unit kUnits[] = {
      {1e-3, "ns"}, {1, "\u00b5s"}, {1e3, "ms"}, {1e6, "s"}};
  return decimal_axis(least_us, most_us, kUnits);
}

LogAxis rate_axis(double least_gb, double most_gb) {
  static constexpr Unit kUnits[] = {{1e-9, "B/s"},
                                    {1e-6, "kB/s"},
                                    {1e-3, "MB/s"},
                                    {1, "GB/s"},
                                    {1e3, "TB/s"}};
  return decimal_axis(least_gb, most_gb, kUnits);
}

}  // namespace distwrap::bench
