// rand, randn and dropout. Element i takes its bits from block i / 4 of the
// call, or i / 2 in f64, so that every value depends on seed, call and index
// alone.
#include "distwrap/random.h"

#include "cpu/convert.h"
#include "cpu/philox.h"
#include "cpu/strided_copy.h"
#include "cpu/vector_math.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

namespace distwrap::cpu {
namespace {

constexpr int64_t kPart = 512;  // elements, a multiple of a block's

uint64_t joined(const uint32_t* words) {
  return words[0] | uint64_t{words[1]} << 32;
}

// Numbers from 0 on, below 1, with as many bits as the type holds exactly: the
// rounding to 16 bits does not reach 1.
void uniform(const uint32_t* words, int64_t n, DType dtype, float* out) {
  const int bits = dtype == DType::kF16 ? 11 : dtype == DType::kBF16 ? 8 : 24;
  const float unit = std::ldexp(1.0f, -bits);
  for (int64_t i = 0; i < n; ++i)
    out[i] = static_cast<float>(words[i] >> (32 - bits)) * unit;
}
void uniform(const uint32_t* words, int64_t n, DType, double* out) {
  for (int64_t i = 0; i < n; ++i)
    out[i] = static_cast<double>(joined(words + 2 * i) >> 11) * 0x1p-53;
}

// From above 0 to 1, and from 0 to below 1.
float above_zero(const uint32_t* words, int64_t i, float) {
  return static_cast<float>(words[i]) * 0x1p-32f + 0x1p-33f;
}
float below_one(const uint32_t* words, int64_t i, float) {
  return static_cast<float>(words[i] >> 8) * 0x1p-24f;
}
double above_zero(const uint32_t* words, int64_t i, double) {
  return static_cast<double>((joined(words + 2 * i) >> 11) + 1) * 0x1p-53;
}
double below_one(const uint32_t* words, int64_t i, double) {
  return static_cast<double>(joined(words + 2 * i) >> 11) * 0x1p-53;
}

// Two normal numbers from two uniform ones, after Box and Muller 1958.
template <class T>
void normal(const uint32_t* words, int64_t n, DType, T* out) {
  T radius[kPart / 2], angle[kPart / 2], wave[kPart / 2];
  const int64_t pairs = (n + 1) / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    radius[i] = above_zero(words, 2 * i, T{});
    angle[i] = static_cast<T>(6.28318530717958647692) *
               below_one(words, 2 * i + 1, T{});
  }
  functions<T>().log(radius, radius, pairs);
  for (int64_t i = 0; i < pairs; ++i) radius[i] = std::sqrt(T{-2} * radius[i]);
  functions<T>().cos(wave, angle, pairs);
  for (int64_t i = 0; i < pairs; ++i) out[2 * i] = radius[i] * wave[i];
  functions<T>().sin(wave, angle, pairs);
  for (int64_t i = 0; i < n / 2; ++i) out[2 * i + 1] = radius[i] * wave[i];
}

// Fills a row-major tensor; draw(words, n, dtype, out) makes n numbers.
template <class T, class Draw>
void fill(const Tensor& out, const Generator& generator, const Draw& draw) {
  constexpr int64_t kEach = 16 / sizeof(T);  // elements of a block
  const int64_t size = dtype_size(out.dtype());
  uint32_t words[kPart / kEach * 4];
  T values[kPart];
  for (int64_t at = 0; at < out.count(); at += kPart) {
    const int64_t count = std::min(out.count() - at, kPart);
    philox(generator, at / kEach, (count + kEach - 1) / kEach, words);
    draw(words, count, out.dtype(), values);
    write_row(out.dtype(), static_cast<char*>(out.data()) + at * size, 1, count,
              values);
  }
}

template <class F32, class F64>
absl::StatusOr<Tensor> draw(absl::StatusOr<Tensor> out,
                            const std::optional<Generator>& given,
                            const F32& f32, const F64& f64) {
  if (!out.ok()) return out;
  const Generator generator = given.has_value() ? *given : next_generator();
  if (out->dtype() == DType::kF64) {
    fill<double>(*out, generator, f64);
  } else {
    fill<float>(*out, generator, f32);
  }
  return out;
}

// Zeroes elements, and scales the others up.
template <class T>
void drop(const Tensor& out, const Generator& generator, double p) {
  // An element is dropped where its word is below p * 2^32.
  const double limit = std::ceil(p * 0x1p32);
  const bool all = limit >= 0x1p32;
  const uint32_t least = all ? 0 : static_cast<uint32_t>(limit);
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const T scale = all ? T{0} : static_cast<T>(1 / (1 - p));
  const int64_t size = dtype_size(out.dtype());
  uint32_t words[kPart];
  T room[kPart], values[kPart];
  for (int64_t at = 0; at < out.count(); at += kPart) {
    const int64_t count = std::min(out.count() - at, kPart);
    char* const here = static_cast<char*>(out.data()) + at * size;
    philox(generator, at / 4, (count + 3) / 4, words);
    const T* const x = read_row(out.dtype(), here, 1, count, room);
    // Without a branch, which no processor could predict.
    for (int64_t i = 0; i < count; ++i) {
      const Bits kept = Bits{0} - static_cast<Bits>(words[i] >= least);
      values[i] = std::bit_cast<T>(std::bit_cast<Bits>(x[i] * scale) & kept);
    }
    if (all) std::fill_n(values, count, T{0});
    write_row(out.dtype(), here, 1, count, values);
  }
}

}  // namespace

absl::StatusOr<Tensor> rand(Ints size, DType dtype, Device device,
                            std::optional<Generator> generator) {
  const auto numbers = [](auto... of) { uniform(of...); };
  return draw(outputs::random("dw::rand", size, dtype, device), generator,
              numbers, numbers);
}

absl::StatusOr<Tensor> randn(Ints size, DType dtype, Device device,
                             std::optional<Generator> generator) {
  const auto numbers = [](auto... of) { normal(of...); };
  return draw(outputs::random("dw::randn", size, dtype, device), generator,
              numbers, numbers);
}

absl::StatusOr<Tensor> dropout(const Tensor& self, double p, bool train,
                               std::optional<Generator> generator) {
  absl::StatusOr<Tensor> out = outputs::dropout(self, p);
  if (!out.ok()) return out;
  copy_converted(*out, self);
  if (!train) return out;
  const Generator drawn = generator.has_value() ? *generator : next_generator();
  if (self.dtype() == DType::kF64) {
    drop<double>(*out, drawn, p);
  } else {
    drop<float>(*out, drawn, p);
  }
  return out;
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::rand", {kDense, kCpu}, kernel<&rand>());
  lib.impl("dw::randn", {kDense, kCpu}, kernel<&randn>());
  lib.impl("dw::dropout", {kDense, kCpu}, kernel<&dropout>());
}

}  // namespace distwrap::cpu
