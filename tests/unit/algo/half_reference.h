// The value of a 16-bit float, and the rounding of numbers to one, computed in
// double from the definition of the format: slow, for comparisons.
#ifndef DISTWRAP_TESTS_UNIT_ALGO_HALF_REFERENCE_H_
#define DISTWRAP_TESTS_UNIT_ALGO_HALF_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace distwrap::algo::testing {

// A sign, exponent bits, then mantissa bits.
struct HalfFormat {
  int mantissa_bits;
  int bias;

  int exponent_mask() const { return (1 << (15 - mantissa_bits)) - 1; }
  int lowest_exponent() const { return 1 - bias; }

  double value(uint16_t bits) const {
    const int exponent = bits >> mantissa_bits & exponent_mask();
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == exponent_mask())
      return mantissa != 0 ? std::copysign(std::nan(""), sign)
                           : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0)
      return sign * std::ldexp(mantissa, lowest_exponent() - mantissa_bits);
    return sign * std::ldexp((1 << mantissa_bits) + mantissa,
                             exponent - bias - mantissa_bits);
  }

  // The nearest value of the format; of two, the one with an even mantissa.
  double nearest(double x) const {
    if (!std::isfinite(x) || x == 0) return x;
    const int exponent = std::max(std::ilogb(x), lowest_exponent());
    const double unit = std::ldexp(1, exponent - mantissa_bits);
    const double rounded = std::nearbyint(x / unit) * unit;
    if (std::abs(rounded) >= std::ldexp(1, bias + 1))
      return std::copysign(std::numeric_limits<double>::infinity(), x);
    return std::copysign(rounded, x);
  }
};

inline constexpr HalfFormat kF16Format{10, 15};
inline constexpr HalfFormat kBF16Format{7, 127};

}  // namespace distwrap::algo::testing

#endif  // DISTWRAP_TESTS_UNIT_ALGO_HALF_REFERENCE_H_
