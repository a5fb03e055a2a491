// How an element type lies in memory (Storage) and what it is while it is
// reduced (Value).
#ifndef DISTWRAP_SRC_ALGO_KERNELS_ELEMENT_H_
#define DISTWRAP_SRC_ALGO_KERNELS_ELEMENT_H_

#include "algo/half.h"

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace distwrap::algo::kernels::DW_VARIANT {

template <class T>
struct Plain {
  using Storage = T;
  using Value = T;
  static Value load(Storage x) { return x; }
  static Storage store(Value x) { return x; }
};

// 16-bit floats are widened and rounded by registers (half_lanes.h), but for an
// operand.
struct F16 {
  using Storage = uint16_t;
  using Value = float;
  static Value load(Storage x) { return f16_to_f32(x); }
};

struct BF16 {
  using Storage = uint16_t;
  using Value = float;
  static Value load(Storage x) { return bf16_to_f32(x); }
};

// Whatever is not zero is true. A value is 0 or 1, and so is what is stored.
struct Bool {
  using Storage = uint8_t;
  using Value = uint8_t;
  static Value load(Storage x) { return x != 0; }
  static Storage store(Value x) { return x; }
};

// By the row of abi/dtypes.def: DLPack's code, bits, type of the storage.
template <uint8_t kCode, uint8_t kBits, class T>
constexpr auto element_of() {
  if constexpr (kCode == 6)
    return Bool{};
  else if constexpr (kCode == 4)
    return BF16{};
  else if constexpr (kCode == 2 && kBits == 16)
    return F16{};
  else
    return Plain<T>{};
}

// Many results do not depend on the sign, and one kernel serves both types.
template <class E>
struct UnsignedOf {
  using Type = E;
};
template <std::signed_integral T>
struct UnsignedOf<Plain<T>> {
  using Type = Plain<std::make_unsigned_t<T>>;
};

}  // namespace distwrap::algo::kernels::DW_VARIANT

#endif  // DISTWRAP_SRC_ALGO_KERNELS_ELEMENT_H_
