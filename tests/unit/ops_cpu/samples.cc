#include "samples.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace distwrap::cpu {
namespace {

int64_t offset_of(const Tensor& tensor, int64_t position) {
  int64_t offset = 0;
  for (int d = tensor.dims(); d-- > 0;) {
    offset += position % tensor.size(d) * tensor.stride(d);
    position /= tensor.size(d);
  }
  return offset;
}

struct Format {
  int fraction, least, most;  // bits, exponents of normal numbers
};
constexpr Format kHalf{10, -14, 15}, kBrain{7, -126, 127};

double round_to(const Format& format, double value) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.least);
  const double unit = std::ldexp(1.0, exponent - format.fraction);
  const double near = std::nearbyint(value / unit) * unit;
  return std::abs(near) >= std::ldexp(2.0, format.most)
             ? std::copysign(std::numeric_limits<double>::infinity(), value)
             : near;
}

uint16_t bits_of(const Format& format, double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const int bias = format.most;
  const auto special =
      static_cast<uint16_t>(((2 * bias + 1) << format.fraction));
  if (std::isnan(value))
    return static_cast<uint16_t>(special | 1 << (format.fraction - 1));
  value = round_to(format, std::abs(value));
  if (std::isinf(value)) return sign | special;
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), format.least);
  const auto whole =
      static_cast<int>(std::ldexp(value, format.fraction - exponent));
  const int base = whole >> format.fraction != 0 ? exponent + bias : 0;
  return static_cast<uint16_t>(sign | base << format.fraction |
                               (whole & ((1 << format.fraction) - 1)));
}

double value_of(const Format& format, uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = (bits & 0x7fff) >> format.fraction;
  const int fraction = bits & ((1 << format.fraction) - 1);
  if (exponent == 2 * format.most + 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0)
    return sign * std::ldexp(fraction, format.least - format.fraction);
  return sign * std::ldexp(fraction + (1 << format.fraction),
                           exponent - format.most - format.fraction);
}

}  // namespace

std::vector<DType> numbers() {
  std::vector<DType> types = kFloats;
  types.insert(types.end(), kIntegers.begin(), kIntegers.end());
  return types;
}

std::vector<DType> all_types() {
  std::vector<DType> types = numbers();
  types.push_back(DType::kBool);
  return types;
}

double element(const Tensor& tensor, int64_t position) {
  const char* const at =
      static_cast<const char*>(tensor.data()) +
      offset_of(tensor, position) * dtype_size(tensor.dtype());
  switch (tensor.dtype()) {
    case DType::kF16:
      return value_of(kHalf, *reinterpret_cast<const uint16_t*>(at));
    case DType::kBF16:
      return value_of(kBrain, *reinterpret_cast<const uint16_t*>(at));
    case DType::kBool:
      return *at != 0;
#define DW_READ(dtype, type) \
  case DType::dtype:         \
    return static_cast<double>(*reinterpret_cast<const type*>(at));
      DW_READ(kU8, uint8_t)
      DW_READ(kI8, int8_t)
      DW_READ(kU16, uint16_t)
      DW_READ(kI16, int16_t)
      DW_READ(kU32, uint32_t)
      DW_READ(kI32, int32_t)
      DW_READ(kU64, uint64_t)
      DW_READ(kI64, int64_t)
      DW_READ(kF32, float)
      DW_READ(kF64, double)
#undef DW_READ
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
      break;  // no tensor has them
  }
  return 0;
}

void set_element(const Tensor& tensor, int64_t position, double value) {
  char* const at = static_cast<char*>(tensor.data()) +
                   offset_of(tensor, position) * dtype_size(tensor.dtype());
  switch (tensor.dtype()) {
    case DType::kF16:
      *reinterpret_cast<uint16_t*>(at) = bits_of(kHalf, value);
      break;
    case DType::kBF16:
      *reinterpret_cast<uint16_t*>(at) = bits_of(kBrain, value);
      break;
    case DType::kBool:
      *at = value != 0;
      break;
#define DW_WRITE(dtype, type)                                \
  case DType::dtype:                                         \
    *reinterpret_cast<type*>(at) = static_cast<type>(value); \
    break;
      DW_WRITE(kU8, uint8_t)
      DW_WRITE(kI8, int8_t)
      DW_WRITE(kU16, uint16_t)
      DW_WRITE(kI16, int16_t)
      DW_WRITE(kU32, uint32_t)
      DW_WRITE(kI32, int32_t)
      DW_WRITE(kU64, uint64_t)
      DW_WRITE(kI64, int64_t)
      DW_WRITE(kF32, float)
      DW_WRITE(kF64, double)
#undef DW_WRITE
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
      break;  // no tensor has them
  }
}

Values values_of(const Tensor& tensor) {
  Values values;
  for (int64_t i = 0; i < tensor.count(); ++i)
    values.push_back(element(tensor, i));
  return values;
}

double rounded(DType dtype, double value) {
  if (dtype == DType::kF16) return round_to(kHalf, value);
  if (dtype == DType::kBF16) return round_to(kBrain, value);
  if (dtype == DType::kF32)
    return static_cast<double>(static_cast<float>(value));
  return value;
}

Tensor tensor_of(Dims sizes, const Values& values, DType dtype) {
  Tensor tensor = *Tensor::empty(sizes, dtype);
  EXPECT_EQ(tensor.count(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i)
    set_element(tensor, static_cast<int64_t>(i), values[i]);
  return tensor;
}

Tensor sample(Dims sizes, DType dtype, int seed) {
  Tensor tensor = *Tensor::empty(sizes, dtype);
  std::mt19937 random(static_cast<unsigned>(seed));
  const bool real = dtype == DType::kF16 || dtype == DType::kBF16 ||
                    dtype == DType::kF32 || dtype == DType::kF64;
  const bool sign = dtype == DType::kI8 || dtype == DType::kI16 ||
                    dtype == DType::kI32 || dtype == DType::kI64;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const auto draw = static_cast<double>(random() % 4096);
    set_element(tensor, i,
                real                    ? draw / 1024 - 2
                : dtype == DType::kBool ? static_cast<int>(draw) % 2
                : sign                  ? static_cast<int>(draw) % 11 - 5
                                        : static_cast<int>(draw) % 11);
  }
  return tensor;
}

std::vector<Tensor> layouts(const Tensor& tensor) {
  std::vector<Tensor> all = {tensor};
  const auto dims = static_cast<size_t>(tensor.dims());
  const Dims sizes(tensor.sizes().begin(), tensor.sizes().end());
  const auto add = [&](const Dims& strides, int64_t offset) {
    const int64_t elements = 3 * tensor.count() + 64 + 40 * offset;
    Storage storage =
        *Storage::allocate(elements * dtype_size(tensor.dtype()), kCpu);
    std::memset(storage.data(), 1, static_cast<size_t>(storage.bytes()));
    absl::StatusOr<Tensor> other =
        Tensor::of_storage(storage, tensor.dtype(), sizes, strides, offset);
    ASSERT_TRUE(other.ok()) << other.status();
    for (int64_t i = 0; i < tensor.count(); ++i)
      set_element(*other, i, element(tensor, i));
    all.push_back(*other);
  };
  if (dims == 0) return all;
  Dims columns(dims), gaps(dims), back(dims);
  int64_t step = 1;
  for (size_t d = 0; d < dims; ++d) {
    columns[d] = step;
    step *= std::max<int64_t>(sizes[d], 1);
  }
  add(columns, 5);
  Dims dense(dims);
  step = 1;
  for (size_t d = dims; d-- > 0;) {
    dense[d] = step;
    step *= std::max<int64_t>(sizes[d], 1);
  }
  for (size_t d = 0; d < dims; ++d) gaps[d] = 2 * dense[d];
  add(gaps, 3);
  int64_t last = 0;
  for (size_t d = 0; d < dims; ++d) {
    back[d] = -dense[d];
    last += std::max<int64_t>(sizes[d] - 1, 0) * dense[d];
  }
  add(back, last);
  return all;
}

Tensor swapped(const Tensor& tensor) {
  Dims sizes(tensor.sizes().begin(), tensor.sizes().end());
  Dims strides(tensor.strides().begin(), tensor.strides().end());
  std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  std::swap(strides[sizes.size() - 1], strides[sizes.size() - 2]);
  return *Tensor::of_storage(tensor.storage(), tensor.dtype(), sizes, strides,
                             tensor.storage_offset());
}

Tensor expanded(const Tensor& tensor, Dims sizes) {
  Dims strides(sizes.size(), 0);
  const size_t lead = sizes.size() - static_cast<size_t>(tensor.dims());
  for (size_t d = lead; d < sizes.size(); ++d) {
    if (tensor.sizes()[d - lead] == sizes[d])
      strides[d] = tensor.strides()[d - lead];
  }
  return *Tensor::of_storage(tensor.storage(), tensor.dtype(), sizes, strides,
                             tensor.storage_offset());
}

double precision(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-11 * 1.01;
    case DType::kBF16:
      return 0x1p-8 * 1.01;
    case DType::kF32:
      return 1e-6;
    case DType::kF64:
      return 4e-15;
    default:
      return 0;
  }
}

void expect_near(const Tensor& tensor, const Values& expected, double tolerance,
                 const std::string& what) {
  ASSERT_TRUE(tensor.defined()) << what;
  ASSERT_EQ(tensor.count(), static_cast<int64_t>(expected.size())) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double got = element(tensor, static_cast<int64_t>(i));
    const double want = expected[i];
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << what << ", element " << i << ": " << got;
    } else if (std::isinf(want) || std::isinf(rounded(tensor.dtype(), want))) {
      ASSERT_EQ(got, rounded(tensor.dtype(), want))
          << what << ", element " << i;
    } else {
      ASSERT_LE(std::abs(got - want), tolerance * std::max(1.0, std::abs(want)))
          << what << ", element " << i << ": " << got << " instead of " << want;
    }
  }
}

void expect_same_bits(const Tensor& a, const Tensor& b,
                      const std::string& what) {
  ASSERT_EQ(a.text(), b.text()) << what;
  ASSERT_TRUE(a.is_contiguous() && b.is_contiguous()) << what;
  const auto bytes = static_cast<size_t>(a.count() * dtype_size(a.dtype()));
  if (bytes == 0 || std::memcmp(a.data(), b.data(), bytes) == 0) return;
  // Two NaN are alike whatever their bits are.
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = element(a, i), y = element(b, i);
    ASSERT_TRUE((std::isnan(x) && std::isnan(y)) ||
                (x == y && std::signbit(x) == std::signbit(y)))
        << what << ", element " << i << ": " << x << " and " << y;
  }
}

void expect_refused(const absl::Status& status, Reason reason,
                    const std::string& text) {
  ASSERT_FALSE(status.ok()) << text;
  EXPECT_EQ(reason_name(error_reason(status)), reason_name(reason)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(text));
}

}  // namespace distwrap::cpu
