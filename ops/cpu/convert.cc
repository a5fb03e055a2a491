#include "cpu/convert.h"

#include "cpu/loops.h"
#include "sdk/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>

namespace distwrap::cpu {
namespace {

constexpr int64_t kPart = 512;

int64_t to_int64(double value) {
  if (value != value) return 0;
  if (value >= 0x1p64) return -1;  // all bits: the largest without a sign
  if (value >= 0x1p63) {
    return static_cast<int64_t>(static_cast<uint64_t>(value));
  }
  if (value < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

// A whole number as a double from which a rounding to f32 or less gives what
// one rounding would.
template <class Wide>
double odd_double(Wide value) {
  constexpr uint64_t kExact = uint64_t{1} << 53;
  const bool negative = std::signed_integral<Wide> && value < Wide{0};
  uint64_t size = static_cast<uint64_t>(value);
  if (negative) size = uint64_t{0} - size;
  if (size >= kExact) size = (size >> 11 | ((size & 2047) != 0)) << 11;
  const double result = static_cast<double>(size);
  return negative ? -result : result;
}

// A double as the f32 from which a second rounding to 16 bits gives what one
// rounding would: truncated, and odd where it is not exact.
inline float round_to_odd(double value) {
  const float near = static_cast<float>(value);
  const double back = static_cast<double>(near);
  if (back == value || value != value) return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  // The neighbour towards zero, unless `near` is that already.
  if ((back > value) == (value > 0)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

// One element of a wide type (double, int64_t, uint64_t) as a narrower one.
template <class T, class Wide>
T narrow(Wide value) {
  if constexpr (std::floating_point<T>)
    return static_cast<T>(value);
  else if constexpr (std::floating_point<Wide>)
    return static_cast<T>(to_int64(value));
  else
    return static_cast<T>(value);
}

template <class Wide>
float odd_float(Wide value) {
  if constexpr (std::floating_point<Wide>)
    return round_to_odd(value);
  else
    return round_to_odd(odd_double(value));
}

template <class T, class Wide>
void narrow_all(void* out, const Wide* in, int64_t n) {
  T* const to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = narrow<T>(in[i]);
}

template <class Wide>
void store(DType dtype, void* out, const Wide* in, int64_t n) {
  switch (dtype) {
    case DType::kU8:
    case DType::kI8:
      return narrow_all<uint8_t>(out, in, n);
    case DType::kU16:
    case DType::kI16:
      return narrow_all<uint16_t>(out, in, n);
    case DType::kU32:
    case DType::kI32:
      return narrow_all<uint32_t>(out, in, n);
    case DType::kU64:
    case DType::kI64:
      return narrow_all<uint64_t>(out, in, n);
    case DType::kF32:
      return narrow_all<float>(out, in, n);
    case DType::kF64:
      return narrow_all<double>(out, in, n);
    case DType::kF16:
      for (int64_t i = 0; i < n; ++i)
        static_cast<uint16_t*>(out)[i] = dw_sdk::f32_to_f16(odd_float(in[i]));
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < n; ++i)
        static_cast<uint16_t*>(out)[i] = dw_sdk::f32_to_bf16(odd_float(in[i]));
      return;
    case DType::kBool:
      for (int64_t i = 0; i < n; ++i)
        static_cast<uint8_t*>(out)[i] = in[i] != Wide{0};
      return;
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
      return;  // no tensor has them
  }
}

template <class T, class Wide>
void widen_all(Wide* out, const void* in, int64_t n) {
  const T* const from = static_cast<const T*>(in);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Wide>(from[i]);
}

void load_float(DType dtype, double* out, const void* in, int64_t n) {
  const auto* const halves = static_cast<const uint16_t*>(in);
  if (dtype == DType::kF16) {
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<double>(dw_sdk::f16_to_f32(halves[i]));
  } else if (dtype == DType::kBF16) {
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<double>(dw_sdk::bf16_to_f32(halves[i]));
  } else if (dtype == DType::kF32) {
    widen_all<float>(out, in, n);
  } else {
    widen_all<double>(out, in, n);
  }
}

void load_int(DType dtype, int64_t* out, const void* in, int64_t n) {
  switch (dtype) {
    case DType::kU8:
      return widen_all<uint8_t>(out, in, n);
    case DType::kI8:
      return widen_all<int8_t>(out, in, n);
    case DType::kU16:
      return widen_all<uint16_t>(out, in, n);
    case DType::kI16:
      return widen_all<int16_t>(out, in, n);
    case DType::kU32:
      return widen_all<uint32_t>(out, in, n);
    case DType::kI32:
      return widen_all<int32_t>(out, in, n);
    case DType::kBool:
      for (int64_t i = 0; i < n; ++i)
        out[i] = static_cast<const uint8_t*>(in)[i] != 0;
      return;
    default:
      return widen_all<int64_t>(out, in, n);
  }
}

template <class Wide, class Load>
void convert_by(const Load& load, DType to, void* out, DType from,
                const void* in, int64_t n) {
  const int64_t step = dtype_size(to), width = dtype_size(from);
  Wide wide[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t count = std::min(n - at, kPart);
    load(from, wide, static_cast<const char*>(in) + at * width, count);
    store(to, static_cast<char*>(out) + at * step, wide, count);
  }
}

template <class T>
void gather_all(void* out, const void* in, int64_t stride, int64_t n) {
  T* const to = static_cast<T*>(out);
  const T* const from = static_cast<const T*>(in);
  for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
}

template <class T>
void scatter_all(void* out, int64_t stride, const void* in, int64_t n) {
  T* const to = static_cast<T*>(out);
  const T* const from = static_cast<const T*>(in);
  for (int64_t i = 0; i < n; ++i) to[i * stride] = from[i];
}

}  // namespace

void convert(DType to, void* out, DType from, const void* in, int64_t n) {
  if (to == from) {
    if (n > 0) {
      std::memcpy(out, in, static_cast<size_t>(n * dtype_size(to)));
    }
    return;
  }
  const auto* const halves = static_cast<const uint16_t*>(in);
  const auto* const floats = static_cast<const float*>(in);
  if (to == DType::kF32 && from == DType::kF16) {
    return loops().widen_f16(static_cast<float*>(out), halves, n);
  }
  if (to == DType::kF32 && from == DType::kBF16) {
    return loops().widen_bf16(static_cast<float*>(out), halves, n);
  }
  if (to == DType::kF16 && from == DType::kF32) {
    return loops().narrow_f16(static_cast<uint16_t*>(out), floats, n);
  }
  if (to == DType::kBF16 && from == DType::kF32) {
    return loops().narrow_bf16(static_cast<uint16_t*>(out), floats, n);
  }
  if (is_float(from)) {
    convert_by<double>(&load_float, to, out, from, in, n);
  } else if (from == DType::kU64) {
    convert_by<uint64_t>(
        [](DType, uint64_t* wide, const void* some, int64_t count) {
          widen_all<uint64_t>(wide, some, count);
        },
        to, out, from, in, n);
  } else {
    convert_by<int64_t>(&load_int, to, out, from, in, n);
  }
}

void load_strided(int64_t size, void* out, const void* in, int64_t stride,
                  int64_t n) {
  switch (size) {
    case 1:
      return gather_all<uint8_t>(out, in, stride, n);
    case 2:
      return gather_all<uint16_t>(out, in, stride, n);
    case 4:
      return gather_all<uint32_t>(out, in, stride, n);
    default:
      return gather_all<uint64_t>(out, in, stride, n);
  }
}

void store_strided(int64_t size, void* out, int64_t stride, const void* in,
                   int64_t n) {
  switch (size) {
    case 1:
      return scatter_all<uint8_t>(out, stride, in, n);
    case 2:
      return scatter_all<uint16_t>(out, stride, in, n);
    case 4:
      return scatter_all<uint32_t>(out, stride, in, n);
    default:
      return scatter_all<uint64_t>(out, stride, in, n);
  }
}

void repeat(int64_t size, void* out, const void* element, int64_t n) {
  switch (size) {
    case 1: {
      if (n > 0) {
        std::memset(out, *static_cast<const uint8_t*>(element),
                    static_cast<size_t>(n));
      }
      return;
    }
    case 2:
      std::fill_n(static_cast<uint16_t*>(out), n,
                  *static_cast<const uint16_t*>(element));
      return;
    case 4:
      std::fill_n(static_cast<uint32_t*>(out), n,
                  *static_cast<const uint32_t*>(element));
      return;
    default:
      std::fill_n(static_cast<uint64_t*>(out), n,
                  *static_cast<const uint64_t*>(element));
  }
}

template <class T>
const T* read_row(DType dtype, const void* in, int64_t stride, int64_t n,
                  T* room) {
  const bool contiguous = stride == 1 || n <= 1;
  if (!is_half(dtype)) {
    if (contiguous) return static_cast<const T*>(in);
    load_strided(sizeof(T), room, in, stride, n);
    return room;
  }
  uint16_t part[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t count = std::min(n - at, kPart);
    const auto* halves = static_cast<const uint16_t*>(in) + at * stride;
    if (!contiguous) {
      load_strided(sizeof(uint16_t), part, halves, stride, count);
      halves = part;
    }
    convert(dtype_of<T>, room + at, dtype, halves, count);
  }
  return room;
}

template <class T>
void write_row(DType dtype, void* out, int64_t stride, int64_t n,
               const T* row) {
  const bool contiguous = stride == 1 || n <= 1;
  if (!is_half(dtype)) {
    if (!contiguous) return store_strided(sizeof(T), out, stride, row, n);
    if (out != row && n > 0) {
      std::memcpy(out, row, static_cast<size_t>(n) * sizeof(T));
    }
    return;
  }
  uint16_t part[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t count = std::min(n - at, kPart);
    auto* const halves = static_cast<uint16_t*>(out) + at * stride;
    if (contiguous) {
      convert(dtype, halves, dtype_of<T>, row + at, count);
    } else {
      convert(dtype, part, dtype_of<T>, row + at, count);
      store_strided(sizeof(uint16_t), halves, stride, part, count);
    }
  }
}

template const float* read_row(DType, const void*, int64_t, int64_t, float*);
template const double* read_row(DType, const void*, int64_t, int64_t, double*);
template void write_row(DType, void*, int64_t, int64_t, const float*);
template void write_row(DType, void*, int64_t, int64_t, const double*);

Number Number::of(const Scalar& value, DType dtype) {
  Number number;
  if (dtype == DType::kF32) {
    // The common case.
    const float narrow = value.to<float>();
    std::memcpy(number.bytes, &narrow, sizeof narrow);
  } else if (value.is_float()) {
    const double wide = value.to<double>();
    convert(dtype, number.bytes, DType::kF64, &wide, 1);
  } else {
    const int64_t wide = value.to<int64_t>();
    convert(dtype, number.bytes, DType::kI64, &wide, 1);
  }
  return number;
}

}  // namespace distwrap::cpu
