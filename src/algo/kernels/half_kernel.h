// The reduction kernels of 16-bit floats: blocks of f32, converted by the
// machine's own instructions.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_
#define DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_

#include "algo/kernels/kernel.h"

namespace distwrap::algo::kernels {

// One more input into `values`, alone for the same reason as join_two.
template <class R>
[[gnu::noinline]] void join_floats(const R& reduction, float* values,
                                   const float* next, uint64_t count) {
  DW_ITERATIONS_ARE_INDEPENDENT
  for (uint64_t i = 0; i < count; ++i)
    values[i] = reduction.join(values[i], reduction.take(next[i]));
}

template <class E, uint16_t kReduce>
void half_kernel(void* out_memory, const void* const* in, uint64_t n,
                 uint64_t count, const void* operand) {
  using R = Reduction<E, kReduce>;
  const R reduction(operand);
  uint16_t* const out = static_cast<uint16_t*>(out_memory);
  const auto input = [in](uint64_t k) {
    return static_cast<const uint16_t*>(in[k]);
  };
  if constexpr (R::kCopiesOne)
    if (n == 1) return reduce_one(reduction, out, input(0), count);
  const HalfBlock& convert = E::block();
  float values[kBlock], next[kBlock];
  for (uint64_t begin = 0; begin < count; begin += kBlock) {
    const uint64_t size = count - begin < kBlock ? count - begin : kBlock;
    convert.widen(values, input(0) + begin, size);
    if constexpr (R::kScales)
      for (uint64_t i = 0; i < size; ++i) values[i] = reduction.take(values[i]);
    for (uint64_t k = 1; k < n; ++k) {
      convert.widen(next, input(k) + begin, size);
      join_floats(reduction, values, next, size);
    }
    if constexpr (kReduce == DW_REDUCE_AVG)
      for (uint64_t i = 0; i < size; ++i) values[i] = reduction.give(values[i]);
    convert.narrow(out + begin, values, size);
  }
}

}  // namespace distwrap::algo::kernels

#endif  // DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_
