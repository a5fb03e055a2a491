// The kernels of a variant for an element type, by reduction.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_ROWS_H_
#define DISTWRAP_SRC_ALGO_KERNELS_ROWS_H_

#include "algo/kernels/half_kernel.h"
#include "algo/kernels/kernel.h"
#include "algo/kernels/variants.h"

#include <array>
#include <concepts>

namespace distwrap::algo::kernels::DW_VARIANT {

// The element types that a reduction takes, named as in abi/reductions.def.
enum class Takes { ANY, NUMBERS, INTEGERS, FLOATS };

template <class E>
constexpr bool takes(Takes what) {
  constexpr bool is_float = std::floating_point<typename E::Value>;
  switch (what) {
    case Takes::NUMBERS:
      return !std::same_as<E, Bool>;
    case Takes::INTEGERS:
      return !is_float;
    case Takes::FLOATS:
      return is_float;
    default:
      return true;
  }
}

constexpr bool sign_matters(uint16_t reduce) {
  return reduce == DW_REDUCE_MIN || reduce == DW_REDUCE_MAX ||
         reduce == DW_REDUCE_AVG;
}

template <class E, uint16_t kReduce, Takes kTakes>
constexpr dw_reduce_fn kernel_of() {
  if constexpr (!takes<E>(kTakes) || std::same_as<E, NotReduced>)
    return nullptr;
  else if constexpr (std::same_as<E, F16> || std::same_as<E, BF16>)
    return half_kernel<E, kReduce>;
  else if constexpr (sign_matters(kReduce))
    return kernel<E, kReduce>;
  else
    return kernel<typename UnsignedOf<E>::Type, kReduce>;
}

// A row has a place for each reduction; the first one, for no reduction, is
// empty.
template <class E>
constexpr auto row_of() {
  return std::to_array<dw_reduce_fn>({
      nullptr,
#define DW_REDUCTION(value, name, enumerator, text, takes, meaning) \
  kernel_of<E, value, Takes::takes>(),
#include "distwrap/abi/reductions.def"
  });
}

using Row = decltype(row_of<Bool>());

}  // namespace distwrap::algo::kernels::DW_VARIANT

#endif  // DISTWRAP_SRC_ALGO_KERNELS_ROWS_H_
