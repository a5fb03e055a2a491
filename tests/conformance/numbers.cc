#include "numbers.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace distwrap::conformance {
namespace {

// A binary format of 16 bits with a sign, exponent and fraction.
struct Half {
  int fraction, bias;

  int min_exponent() const { return 1 - bias; }
  // The exponent of infinity.
  int exponents() const { return (1 << (15 - fraction)) - 1; }

  uint16_t rounded(long double x) const {
    const auto sign = static_cast<unsigned>(std::signbit(x) ? 0x8000 : 0);
    const auto word = [sign](long double bits) {
      return static_cast<uint16_t>(sign | static_cast<unsigned>(bits));
    };
    const long double infinity =
        std::ldexp(static_cast<long double>(exponents()), fraction);
    if (std::isnan(x)) return word(infinity + 1);
    const long double size = std::fabs(x);
    if (std::isinf(x)) return word(infinity);
    if (size == 0) return word(0);
    int exponent = std::ilogb(size);
    if (exponent < min_exponent()) exponent = min_exponent();
    // In units of the last place; a carry continues into the exponent by
    // itself.
    const long double units =
        std::nearbyint(std::ldexp(size, fraction - exponent));
    const long double bits =
        std::ldexp(static_cast<long double>(exponent - min_exponent()),
                   fraction) +
        units;
    return word(bits < infinity ? bits : infinity);
  }

  long double value(uint16_t word) const {
    const int exponent = (word & 0x7fff) >> fraction;
    const int units = word & ((1 << fraction) - 1);
    long double size;
    if (exponent == exponents())
      size = units == 0 ? std::numeric_limits<long double>::infinity()
                        : std::numeric_limits<long double>::quiet_NaN();
    else if (exponent == 0)
      size = std::ldexp(static_cast<long double>(units),
                        min_exponent() - fraction);
    else
      size = std::ldexp(static_cast<long double>(units + (1 << fraction)),
                        exponent - bias - fraction);
    return (word & 0x8000) != 0 ? -size : size;
  }
};

constexpr Half kF16 = {10, 15};
constexpr Half kBF16 = {7, 127};

// Calls `use` with a zero of the storage type.
template <typename Use>
void with_storage(int dtype, Use use) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  if (dtype == index) return use(storage{});
#include "distwrap/abi/dtypes.def"
}

}  // namespace

bool is_float(int dtype) {
  return dtype == DW_DTYPE_F16 || dtype == DW_DTYPE_BF16 ||
         dtype == DW_DTYPE_F32 || dtype == DW_DTYPE_F64;
}

bool is_signed(int dtype) {
  return dtype == DW_DTYPE_I8 || dtype == DW_DTYPE_I16 ||
         dtype == DW_DTYPE_I32 || dtype == DW_DTYPE_I64;
}

size_t element_size(int dtype) {
  size_t size = 0;
  with_storage(dtype, [&](auto zero) { size = sizeof zero; });
  return size;
}

long double epsilon(int dtype) {
  switch (dtype) {
    case DW_DTYPE_F16:
      return std::ldexp(1.0L, -kF16.fraction);
    case DW_DTYPE_BF16:
      return std::ldexp(1.0L, -kBF16.fraction);
    case DW_DTYPE_F32:
      return std::numeric_limits<float>::epsilon();
    default:
      return std::numeric_limits<double>::epsilon();
  }
}

const char* dtype_text(int dtype) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  if (dtype == index) return #text;
#include "distwrap/abi/dtypes.def"
  return "?";
}

const char* reduction_text(uint16_t reduce) {
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  if (reduce == value) return #text;
#include "distwrap/abi/reductions.def"
  return "none";
}

Number load(int dtype, const char* at) {
  Number number;
  uint16_t word;
  std::memcpy(&word, at, element_size(dtype) < 2 ? 1 : 2);
  if (dtype == DW_DTYPE_F16) return {0, kF16.value(word)};
  if (dtype == DW_DTYPE_BF16) return {0, kBF16.value(word)};
  with_storage(dtype, [&](auto element) {
    std::memcpy(&element, at, sizeof element);
    if constexpr (std::is_floating_point_v<decltype(element)>)
      number.real = element;
    else
      number.whole = element;
  });
  return number;
}

void store(int dtype, const Number& number, char* at) {
  if (dtype == DW_DTYPE_F16 || dtype == DW_DTYPE_BF16) {
    const Half& half = dtype == DW_DTYPE_F16 ? kF16 : kBF16;
    const uint16_t word = half.rounded(number.real);
    std::memcpy(at, &word, sizeof word);
    return;
  }
  if (dtype == DW_DTYPE_BOOL) {
    *at = number.whole != 0;
    return;
  }
  with_storage(dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (std::is_floating_point_v<T>)
      element = static_cast<T>(number.real);
    else
      element = static_cast<T>(number.whole);
    std::memcpy(at, &element, sizeof element);
  });
}

bool is_defined(uint16_t reduce, int dtype) {
  if (dtype == DW_DTYPE_F8E4M3FN || dtype == DW_DTYPE_F8E5M2) return false;
  enum class Takes { ANY, NUMBERS, INTEGERS, FLOATS };
  const auto fits = [dtype](Takes takes) {
    switch (takes) {
      case Takes::ANY:
        return true;
      case Takes::NUMBERS:
        return dtype != DW_DTYPE_BOOL;
      case Takes::INTEGERS:
        return !is_float(dtype);
      default:
        return is_float(dtype);
    }
  };
  switch (reduce) {
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  case value:                                                       \
    return fits(Takes::takes);
#include "distwrap/abi/reductions.def"
    default:
      return false;
  }
}

}  // namespace distwrap::conformance
