// The C++ types of the elements with which results are checked.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_ELEMENT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_ELEMENT_H_

#include "distwrap/types.h"
#include "sdk/half.h"

#include <cstdint>

namespace distwrap::bench {

// A 16-bit float. It computes in f32 and rounds the result.
template <uint16_t (*kRound)(float), float (*kWiden)(uint16_t)>
class Half {
 public:
  Half() = default;
  template <class Number>
  explicit Half(Number value) : bits_(kRound(static_cast<float>(value))) {}
  operator float() const { return kWiden(bits_); }

 private:
  uint16_t bits_ = 0;
};

using F16 = Half<dw_sdk::f32_to_f16, dw_sdk::f16_to_f32>;
using BF16 = Half<dw_sdk::f32_to_bf16, dw_sdk::bf16_to_f32>;

// Integers up to this one have different values in a type. Sums of integer
// types wrap around in the same way everywhere.
template <class T>
inline constexpr int64_t kLargestExact = int64_t{1} << 24;
template <>
inline constexpr int64_t kLargestExact<F16> = int64_t{1} << 11;
template <>
inline constexpr int64_t kLargestExact<BF16> = int64_t{1} << 8;

template <DType kType, class Storage>
struct ElementOf {
  using Type = Storage;
};
template <class Storage>
struct ElementOf<DType::kF16, Storage> {
  using Type = F16;
};
template <class Storage>
struct ElementOf<DType::kBF16, Storage> {
  using Type = BF16;
};

// Calls `f` with a zero of the element's C++ type.
template <class F>
void with_type(DType dtype, F f) {
  switch (dtype) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  case DType::enumerator:                                            \
    return f(typename ElementOf<DType::enumerator, storage>::Type{});
#include "distwrap/abi/dtypes.def"
  }
}

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_ELEMENT_H_
