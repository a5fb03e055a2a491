// The reductions of two values, and their operand where they have one. No
// signed integer overflows here.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_REDUCTION_H_
#define DISTWRAP_SRC_ALGO_KERNELS_REDUCTION_H_

#include "algo/kernels/element.h"
#include "distwrap/abi/types.h"

#include <concepts>
#include <cstring>
#include <type_traits>

namespace distwrap::algo::kernels::DW_VARIANT {

// Unsigned arithmetic wraps. Types smaller than int would be promoted to int.
template <std::integral V>
using Wrapping = std::common_type_t<std::make_unsigned_t<V>, unsigned>;

template <class V>
V add(V a, V b) {
  if constexpr (std::integral<V>)
    return static_cast<V>(static_cast<Wrapping<V>>(a) +
                          static_cast<Wrapping<V>>(b));
  else
    return a + b;
}

template <class V>
V multiply(V a, V b) {
  if constexpr (std::integral<V>)
    return static_cast<V>(static_cast<Wrapping<V>>(a) *
                          static_cast<Wrapping<V>>(b));
  else
    return a * b;
}

// A NaN differs from itself. A NaN in `a` stays, because no comparison holds
// for it. Only `b` is tested, because `a` may be the result of another join,
// and gcc would combine both tests into branches.
template <class V>
V smaller(V a, V b) {
  const V number = b < a ? b : a;
  return b != b ? b : number;
}

template <class V>
V larger(V a, V b) {
  const V number = b > a ? b : a;
  return b != b ? b : number;
}

template <uint16_t kReduce, class V>
V join(V a, V b) {
  if constexpr (kReduce == DW_REDUCE_PRODUCT) {
    return multiply(a, b);
  } else if constexpr (kReduce == DW_REDUCE_MIN) {
    return smaller(a, b);
  } else if constexpr (kReduce == DW_REDUCE_MAX) {
    return larger(a, b);
  } else if constexpr (kReduce == DW_REDUCE_BAND) {
    return static_cast<V>(a & b);
  } else if constexpr (kReduce == DW_REDUCE_BOR) {
    return static_cast<V>(a | b);
  } else if constexpr (kReduce == DW_REDUCE_BXOR) {
    return static_cast<V>(a ^ b);
  } else {
    return add(a, b);  // sum, avg, premul_sum
  }
}

// Truncates toward zero for integers. The divisor is a number of ranks: it is
// positive and may exceed the range of V.
template <class V, class Values>
Values divide(Values sum, int64_t divisor) {
  if constexpr (std::floating_point<V>)
    return sum / static_cast<V>(divisor);
  else if constexpr (std::unsigned_integral<V>)
    return static_cast<V>(sum / static_cast<uint64_t>(divisor));
  else
    return static_cast<V>(sum / divisor);
}

// Maps reductions of 0 and 1: a sum is an or, a product an and.
constexpr uint16_t of_truths(uint16_t reduce) {
  if (reduce == DW_REDUCE_SUM) return DW_REDUCE_BOR;
  if (reduce == DW_REDUCE_PRODUCT) return DW_REDUCE_BAND;
  return reduce;
}

// A reduction of elements E with its operand: takes an input, joins it with
// others, and gives the result. 16-bit floats are processed several at a time.
template <class E, uint16_t kReduce>
class Reduction {
 public:
  using Storage = typename E::Storage;
  using Value = typename E::Value;

  explicit Reduction(const void* operand) {
    if constexpr (kReduce == DW_REDUCE_AVG)
      std::memcpy(&divisor_, operand, sizeof divisor_);
    if constexpr (kScales) {
      Storage factor;
      std::memcpy(&factor, operand, sizeof factor);
      factor_ = E::load(factor);
    }
  }

  template <class Values>
  Values take(Values x) const {
    if constexpr (kScales)
      return x * factor_;
    else
      return x;
  }
  template <class Values>
  Values join(Values a, Values b) const {
    constexpr bool kTruths = std::same_as<E, Bool>;
    return DW_VARIANT::join < kTruths ? of_truths(kReduce) : kReduce > (a, b);
  }
  template <class Values>
  Values give(Values x) const {
    if constexpr (kReduce == DW_REDUCE_AVG)
      return divide<Value>(x, divisor_);
    else
      return x;
  }

  // Loads and stores an element in memory, so that the conversion is part of
  // the loop.
  Value load(Storage x) const { return take(E::load(x)); }
  Storage store(Value x) const { return E::store(give(x)); }

  static constexpr bool kScales = kReduce == DW_REDUCE_PREMUL_SUM;
  // Whether a single input is its own result.
  static constexpr bool kCopiesOne =
      kReduce != DW_REDUCE_AVG && !kScales && !std::same_as<E, Bool>;

 private:
  int64_t divisor_ = 1;
  Value factor_{};
};

}  // namespace distwrap::algo::kernels::DW_VARIANT

#endif  // DISTWRAP_SRC_ALGO_KERNELS_REDUCTION_H_
