#include "reduce_reference.h"

#include "half_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace distwrap::algo::testing {
namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

constexpr uint8_t kSigned = 0, kFloatCode = 2, kBrainCode = 4;

template <class T>
T read(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// The low bits as a number of the type.
Wide wrapped(const TypeInfo& type, UnsignedWide value) {
  const int bits = type.dtype.bits;
  const UnsignedWide modulus = static_cast<UnsignedWide>(1) << bits;
  value %= modulus;
  return type.dtype.code == kSigned && value >= modulus / 2
             ? static_cast<Wide>(value) - static_cast<Wide>(modulus)
             : static_cast<Wide>(value);
}

Wide integer(const TypeInfo& type, const char* bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, type.bytes);
  return wrapped(type, value);
}

std::string integer_bytes(const TypeInfo& type, Wide value) {
  const uint64_t bits = static_cast<uint64_t>(value);
  return std::string(reinterpret_cast<const char*>(&bits), type.bytes);
}

std::string reduce_integers(const TypeInfo& type, uint16_t reduce,
                            const std::vector<Wide>& values, int64_t ranks) {
  Wide result = values[0];
  for (size_t k = 1; k < values.size(); ++k) {
    const Wide next = values[k];
    switch (reduce) {
      case DW_REDUCE_PRODUCT:
        result = wrapped(type, static_cast<UnsignedWide>(result) *
                                   static_cast<UnsignedWide>(next));
        break;
      case DW_REDUCE_MIN:
        result = std::min(result, next);
        break;
      case DW_REDUCE_MAX:
        result = std::max(result, next);
        break;
      case DW_REDUCE_BAND:
        result &= next;
        break;
      case DW_REDUCE_BOR:
        result |= next;
        break;
      case DW_REDUCE_BXOR:
        result ^= next;
        break;
      default:
        result = wrapped(type, static_cast<UnsignedWide>(result + next));
    }
  }
  return integer_bytes(type, reduce == DW_REDUCE_AVG ? result / ranks : result);
}

const HalfFormat* half_format(const TypeInfo& type) {
  if (type.dtype.code == kBrainCode) return &kBF16Format;
  return type.dtype.code == kFloatCode && type.bytes == 2 ? &kF16Format
                                                          : nullptr;
}

double number(const TypeInfo& type, const char* bytes) {
  if (const HalfFormat* format = half_format(type))
    return format->value(read<uint16_t>(bytes));
  if (type.bytes == sizeof(float))
    return static_cast<double>(read<float>(bytes));
  return read<double>(bytes);
}

// Rounds a result in double to the accumulating type. For f32 this equals the
// result of one f32 operation, because double has more than twice the bits.
double accumulated(const TypeInfo& type, double x) {
  return type.bytes == sizeof(double)
             ? x
             : static_cast<double>(static_cast<float>(x));
}

double reduce_numbers(const TypeInfo& type, uint16_t reduce,
                      const std::vector<double>& values, double factor,
                      int64_t ranks) {
  const auto input = [&](size_t k) {
    return reduce == DW_REDUCE_PREMUL_SUM
               ? accumulated(type, values[k] * factor)
               : values[k];
  };
  double result = input(0);
  for (size_t k = 1; k < values.size(); ++k) {
    const double next = input(k);
    if (std::isnan(result) || std::isnan(next))
      result = std::nan("");
    else if (reduce == DW_REDUCE_MIN)
      result = std::min(result, next);
    else if (reduce == DW_REDUCE_MAX)
      result = std::max(result, next);
    else if (reduce == DW_REDUCE_PRODUCT)
      result = accumulated(type, result * next);
    else
      result = accumulated(type, result + next);
  }
  if (reduce == DW_REDUCE_AVG)
    result = accumulated(type, result / static_cast<double>(ranks));
  const HalfFormat* const format = half_format(type);
  return format == nullptr ? result : format->nearest(result);
}

bool reduce_truths(uint16_t reduce, const std::vector<bool>& values) {
  const auto n = std::count(values.begin(), values.end(), true);
  switch (reduce) {
    case DW_REDUCE_BXOR:
      return n % 2 != 0;
    case DW_REDUCE_PRODUCT:
    case DW_REDUCE_MIN:
    case DW_REDUCE_BAND:
      return n == static_cast<ptrdiff_t>(values.size());
    default:
      return n != 0;
  }
}

// Bytes of a number of the type; `x` is one of its values.
std::string number_bytes(const TypeInfo& type, double x) {
  if (const HalfFormat* format = half_format(type)) {
    // Magnitudes are in the order of their bits.
    uint16_t low = 0;
    for (uint16_t bit = 0x4000; bit != 0; bit >>= 1) {
      const uint16_t next = static_cast<uint16_t>(low | bit);
      if (format->value(next) <= std::abs(x)) low = next;
    }
    if (std::isnan(x)) low = 0x7fff;
    if (std::signbit(x)) low |= 0x8000;
    return std::string(reinterpret_cast<const char*>(&low), sizeof low);
  }
  if (type.bytes == sizeof(float)) {
    const float value = static_cast<float>(x);
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return std::string(reinterpret_cast<const char*>(&x), sizeof x);
}

Family family_of(uint8_t code) {
  if (code == 6) return Family::kBool;
  return code == kFloatCode || code == kBrainCode ? Family::kFloat
                                                  : Family::kInteger;
}

}  // namespace

const std::vector<TypeInfo> kTypes = {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  {#text, {code, bits, 1}, sizeof(storage), family_of(code)},
#include "distwrap/abi/dtypes.def"
};

const std::vector<ReductionInfo> kReductions = {
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  {#text, value},
#include "distwrap/abi/reductions.def"
};

bool exists(const TypeInfo& type, uint16_t reduce) {
  if (type.dtype.code >= 7) return false;  // floats of 8 bits
  switch (reduce) {
    case DW_REDUCE_BAND:
    case DW_REDUCE_BOR:
    case DW_REDUCE_BXOR:
      return type.family != Family::kFloat;
    case DW_REDUCE_AVG:
      return type.family != Family::kBool;
    case DW_REDUCE_PREMUL_SUM:
      return type.family == Family::kFloat;
    default:
      return true;
  }
}

std::string random_elements(const TypeInfo& type, size_t count,
                            std::mt19937_64& random) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t choice = random();
    const int small = static_cast<int>(choice >> 32 & 31) - 16;
    if (choice % 8 == 0) {
      const uint64_t any = random();
      bytes.append(reinterpret_cast<const char*>(&any), type.bytes);
    } else if (type.family != Family::kFloat) {
      bytes += integer_bytes(type, choice % 8 == 1 ? -Wide{1} : Wide{small});
    } else if (choice % 64 == 1) {
      bytes += number_bytes(type, std::numeric_limits<double>::infinity());
    } else if (choice % 64 == 2) {
      bytes += number_bytes(type, std::nan(""));
    } else if (choice % 64 == 3) {
      bytes += integer_bytes(type, small & 7);  // subnormal
    } else {
      bytes += number_bytes(type, small / 8.0);
    }
  }
  return bytes;
}

std::string random_operand(const TypeInfo& type, uint16_t reduce,
                           std::mt19937_64& random) {
  if (reduce == DW_REDUCE_PREMUL_SUM)
    return number_bytes(type, 0.375 * static_cast<double>(random() % 9));
  if (reduce != DW_REDUCE_AVG) return "";
  const int64_t divisor = static_cast<int64_t>(1 + random() % 400);
  return std::string(reinterpret_cast<const char*>(&divisor), sizeof divisor);
}

std::string reference(const TypeInfo& type, uint16_t reduce,
                      const std::vector<std::string>& inputs,
                      const std::string& operand) {
  const int64_t ranks =
      reduce == DW_REDUCE_AVG ? read<int64_t>(operand.data()) : 1;
  const double factor =
      reduce == DW_REDUCE_PREMUL_SUM ? number(type, operand.data()) : 1;
  std::string result;
  std::vector<Wide> integers(inputs.size());
  std::vector<double> numbers(inputs.size());
  std::vector<bool> truths(inputs.size());
  for (size_t at = 0; at < inputs[0].size(); at += type.bytes) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      const char* const bytes = inputs[k].data() + at;
      if (type.family == Family::kInteger)
        integers[k] = integer(type, bytes);
      else if (type.family == Family::kFloat)
        numbers[k] = number(type, bytes);
      else
        truths[k] = *bytes != 0;
    }
    if (type.family == Family::kInteger)
      result += reduce_integers(type, reduce, integers, ranks);
    else if (type.family == Family::kFloat)
      result += number_bytes(
          type, reduce_numbers(type, reduce, numbers, factor, ranks));
    else
      result += reduce_truths(reduce, truths) ? '\1' : '\0';
  }
  return result;
}

ptrdiff_t first_difference(const TypeInfo& type, uint16_t reduce,
                           const char* got, const std::string& want) {
  const bool zeros_alike = reduce == DW_REDUCE_MIN || reduce == DW_REDUCE_MAX;
  for (size_t at = 0; at < want.size(); at += type.bytes) {
    if (std::memcmp(got + at, want.data() + at, type.bytes) == 0) continue;
    const ptrdiff_t index = static_cast<ptrdiff_t>(at / type.bytes);
    if (type.family != Family::kFloat) return index;
    const double x = number(type, got + at), y = number(type, &want[at]);
    if (!(std::isnan(x) && std::isnan(y)) && !(zeros_alike && x == 0 && y == 0))
      return index;
  }
  return -1;
}

}  // namespace distwrap::algo::testing
