#include "fakes/nccl/arithmetic.h"

#include "nccl/nccl_types.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fakes::nccl {
namespace {

float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
uint16_t to_bf16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float from_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value;
  if (exponent == 31)
    value = fraction != 0 ? std::nanf("") : INFINITY;
  else if (exponent == 0)
    value = std::ldexp(static_cast<float>(fraction), -24);
  else
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -value : value;
}
uint16_t to_f16(float value) {
  if (std::isnan(value)) return 0x7e00;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::fabs(value);
  if (size >= 65520.f) return static_cast<uint16_t>(sign | 0x7c00);
  int exponent = 0;
  std::frexp(size, &exponent);
  // The unit in the last place; below 2^-14 it stays 2^-24.
  const int unit = exponent - 11 < -24 ? -24 : exponent - 11;
  const float units = std::nearbyint(std::ldexp(size, -unit));
  if (units == 0) return sign;
  auto whole = static_cast<uint32_t>(units);
  if (unit == -24)
    return static_cast<uint16_t>(sign | whole);  // 1024 carries by itself
  int biased = unit + 25;
  if (whole == 2048) {
    whole = 1024;
    ++biased;
  }
  return static_cast<uint16_t>(sign | static_cast<unsigned>(biased) << 10 |
                               (whole - 1024));
}

// Floats of 8 bits with so many bits of fraction and this bias; kFinite: the
// largest exponent has numbers too, and but one of its codes is no number.
template <int kFraction, int kBias, bool kFinite>
struct Eight {
  static constexpr int kLargest = kFinite ? 0x7e : 0x7b;
  static float value(uint8_t bits) {
    const int size = bits & 0x7f, exponent = size >> kFraction;
    const int fraction = size & ((1 << kFraction) - 1);
    if (size > kLargest) return kFinite || fraction != 0 ? NAN : INFINITY;
    const float number =
        exponent == 0
            ? std::ldexp(static_cast<float>(fraction), 1 - kBias - kFraction)
            : std::ldexp(static_cast<float>(fraction + (1 << kFraction)),
                         exponent - kBias - kFraction);
    return (bits & 0x80) != 0 ? -number : number;
  }
  // The nearest of all codes; the even one of two.
  static uint8_t code(float number) {
    if (std::isnan(number)) return 0x7f;
    const float size = std::fabs(number);
    int best = 0;
    for (int bits = 1; bits <= kLargest; ++bits) {
      const float near = std::fabs(value(static_cast<uint8_t>(bits)) - size);
      const float best_near =
          std::fabs(value(static_cast<uint8_t>(best)) - size);
      if (near < best_near || (near == best_near && bits % 2 == 0)) best = bits;
    }
    return static_cast<uint8_t>(best | (std::signbit(number) ? 0x80 : 0));
  }
  using Value = float;
  static Value load(const char* at) {
    uint8_t bits;
    std::memcpy(&bits, at, 1);
    return value(bits);
  }
  static void store(Value number, char* at) {
    const uint8_t bits = code(number);
    std::memcpy(at, &bits, 1);
  }
  static constexpr size_t kBytes = 1;
};

// How elements are stored, and in which type they are reduced.
template <class Stored>
struct Plain {
  using Value = Stored;
  static Value load(const char* at) {
    Stored value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static void store(Value value, char* at) {
    std::memcpy(at, &value, sizeof value);
  }
  static constexpr size_t kBytes = sizeof(Stored);
};
template <float (*kFrom)(uint16_t), uint16_t (*kTo)(float)>
struct Half {
  using Value = float;
  static Value load(const char* at) { return kFrom(Plain<uint16_t>::load(at)); }
  static void store(Value value, char* at) {
    Plain<uint16_t>::store(kTo(value), at);
  }
  static constexpr size_t kBytes = 2;
};

template <class Value>
Value combine(int op, Value a, Value b) {
  if constexpr (std::is_floating_point_v<Value>) {
    switch (op) {
      case ncclProd:
        return a * b;
      case ncclMax:
        return std::isnan(a) || a < b ? b : a;
      case ncclMin:
        return std::isnan(a) || b < a ? b : a;
      default:
        return a + b;
    }
  } else {
    using Wide = std::make_unsigned_t<Value>;
    switch (op) {
      case ncclProd:
        return static_cast<Value>(uint64_t{static_cast<Wide>(a)} *
                                  static_cast<Wide>(b));
      case ncclMax:
        return a < b ? b : a;
      case ncclMin:
        return b < a ? b : a;
      default:
        return static_cast<Value>(static_cast<Wide>(a) +
                                  uint64_t{static_cast<Wide>(b)});
    }
  }
}

template <class Form>
void reduce_as(const Reduction& reduction,
               const std::vector<const char*>& inputs,
               const std::vector<const char*>& factors, size_t count,
               char* out) {
  using Value = typename Form::Value;
  constexpr bool kFloat = std::is_floating_point_v<Value>;
  const size_t n = inputs.size();
  // A rank hands on a value of the element type.
  const auto rounded = [](Value value) {
    char stored[Form::kBytes];
    Form::store(value, stored);
    return Form::load(stored);
  };
  const bool averages = reduction.op == ncclAvg && !reduction.premul;
  const bool scales = reduction.premul || (averages && kFloat);
  for (size_t i = 0; i < count; ++i) {
    Value sum{};
    for (size_t hop = 0; hop < n; ++hop) {
      // A ring begins each chunk at another rank.
      const size_t r = (i + hop) % n;
      Value value = Form::load(inputs[r] + i * Form::kBytes);
      if (scales) {
        const Value factor = reduction.premul ? Form::load(factors[r])
                                              : rounded(Value{1} / Value(n));
        value = rounded(static_cast<Value>(value * factor));
      }
      sum = hop == 0 ? value : rounded(combine(reduction.op, sum, value));
    }
    if (averages && !kFloat)
      sum = static_cast<Value>(sum / static_cast<Value>(n));
    Form::store(sum, out + i * Form::kBytes);
  }
}

}  // namespace

size_t bytes_of(int type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

void reduce(const Reduction& reduction, int type,
            const std::vector<const char*>& inputs,
            const std::vector<const char*>& factors, size_t count, char* out) {
  const auto as = [&]<class Form>(Form) {
    reduce_as<Form>(reduction, inputs, factors, count, out);
  };
  switch (type) {
    case ncclInt8:
      return as(Plain<int8_t>());
    case ncclUint8:
      return as(Plain<uint8_t>());
    case ncclInt32:
      return as(Plain<int32_t>());
    case ncclUint32:
      return as(Plain<uint32_t>());
    case ncclInt64:
      return as(Plain<int64_t>());
    case ncclUint64:
      return as(Plain<uint64_t>());
    case ncclFloat16:
      return as(Half<from_f16, to_f16>());
    case ncclFloat32:
      return as(Plain<float>());
    case ncclFloat64:
      return as(Plain<double>());
    case ncclBfloat16:
      return as(Half<from_bf16, to_bf16>());
    case ncclFloat8e4m3:
      return as(Eight<3, 7, true>());
    case ncclFloat8e5m2:
      return as(Eight<2, 15, false>());
    default:
      return;
  }
}

}  // namespace fakes::nccl
