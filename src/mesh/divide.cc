#include "mesh/divide.h"

#include "sdk/half.h"

namespace distwrap::mesh {
namespace {

// Divides elements of type T as values of type Wide, in which every divisor
// fits.
template <class T, class Wide>
void divide_as(void* out, const void* in, int64_t count, int64_t divisor) {
  auto* const to = static_cast<T*>(out);
  const auto* const from = static_cast<const T*>(in);
  for (int64_t i = 0; i < count; ++i)
    to[i] =
        static_cast<T>(static_cast<Wide>(from[i]) / static_cast<Wide>(divisor));
}

template <float (*kLoad)(uint16_t), uint16_t (*kStore)(float)>
void divide_halves(void* out, const void* in, int64_t count, int64_t divisor) {
  auto* const to = static_cast<uint16_t*>(out);
  const auto* const from = static_cast<const uint16_t*>(in);
  for (int64_t i = 0; i < count; ++i)
    to[i] = kStore(kLoad(from[i]) / static_cast<float>(divisor));
}

}  // namespace

void divide(void* out, const void* in, int64_t count, DType dtype,
            int64_t divisor) {
  switch (dtype) {
    case DType::kF32:
      return divide_as<float, float>(out, in, count, divisor);
    case DType::kF64:
      return divide_as<double, double>(out, in, count, divisor);
    case DType::kF16:
      return divide_halves<dw_sdk::f16_to_f32, dw_sdk::f32_to_f16>(
          out, in, count, divisor);
    case DType::kBF16:
      return divide_halves<dw_sdk::bf16_to_f32, dw_sdk::f32_to_bf16>(
          out, in, count, divisor);
    case DType::kI8:
      return divide_as<int8_t, int64_t>(out, in, count, divisor);
    case DType::kI16:
      return divide_as<int16_t, int64_t>(out, in, count, divisor);
    case DType::kI32:
      return divide_as<int32_t, int64_t>(out, in, count, divisor);
    case DType::kI64:
      return divide_as<int64_t, int64_t>(out, in, count, divisor);
    case DType::kU8:
    case DType::kBool:
      return divide_as<uint8_t, uint64_t>(out, in, count, divisor);
    case DType::kU16:
      return divide_as<uint16_t, uint64_t>(out, in, count, divisor);
    case DType::kU32:
      return divide_as<uint32_t, uint64_t>(out, in, count, divisor);
    case DType::kU64:
      return divide_as<uint64_t, uint64_t>(out, in, count, divisor);
    case DType::kF8E4M3FN:
    case DType::kF8E5M2:
      return;  // an average of them is refused before
  }
}

}  // namespace distwrap::mesh
