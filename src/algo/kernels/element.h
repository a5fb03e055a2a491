// The form of an element type in memory (Storage) and during a reduction
// (Value).
#ifndef DISTWRAP_SRC_ALGO_KERNELS_ELEMENT_H_
#define DISTWRAP_SRC_ALGO_KERNELS_ELEMENT_H_

#include "sdk/half.h"

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

// Vector code converts 16-bit floats by registers (half_lanes.h); this type
// serves for operands.
struct F16 {
  using Storage = uint16_t;
  using Value = float;
  static Value load(Storage x) { return dw_sdk::f16_to_f32(x); }
};

struct BF16 {
  using Storage = uint16_t;
  using Value = float;
  static Value load(Storage x) { return dw_sdk::bf16_to_f32(x); }
};

// Every non-zero byte is true. Values, and stored results, are 0 or 1.
struct Bool {
  using Storage = uint8_t;
  using Value = uint8_t;
  static Value load(Storage x) { return x != 0; }
  static Storage store(Value x) { return x; }
};

// Floats of 8 bits, which are moved and not reduced.
struct NotReduced {
  using Storage = uint8_t;
  using Value = uint8_t;
};

// The element type of a row of abi/dtypes.def: DLPack's code, bits, storage
// type.
template <uint8_t kCode, uint8_t kBits, class T>
constexpr auto element_of() {
  if constexpr (kCode == 6)
    return Bool{};
  else if constexpr (kCode == 4)
    return BF16{};
  else if constexpr (kCode == 2 && kBits == 16)
    return F16{};
  else if constexpr (kCode == 10 || kCode == 12)
    return NotReduced{};
  else
    return Plain<T>{};
}

// Many results do not depend on the sign, so one kernel serves both types.
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
