// The reduction kernels of 16-bit floats: widened to f32 in registers, reduced
// there, and rounded once. Each input is read once.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_
#define DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_

#include "algo/kernels/half_lanes.h"
#include "algo/kernels/kernel.h"

namespace distwrap::algo::kernels::DW_VARIANT {

// kPairs of registers full of elements, from `begin` on.
template <uint64_t kPairs, class E, class R>
void reduce_pairs(const R& reduction, uint16_t* out, const void* const* in,
                  uint64_t n, uint64_t begin) {
  const auto taken = [&](uint64_t k, uint64_t i) {
    const Pair pair =
        load_pair(E{}, static_cast<const uint16_t*>(in[k]) + begin + i * kPair);
    return Pair{reduction.take(pair.first), reduction.take(pair.second)};
  };
  Pair values[kPairs];
  for (uint64_t i = 0; i < kPairs; ++i) values[i] = taken(0, i);
  for (uint64_t k = 1; k < n; ++k)
    for (uint64_t i = 0; i < kPairs; ++i) {
      const Pair next = taken(k, i);
      values[i] = {reduction.join(values[i].first, next.first),
                   reduction.join(values[i].second, next.second)};
    }
  for (uint64_t i = 0; i < kPairs; ++i)
    store_pair(
        E{}, out + begin + i * kPair,
        {reduction.give(values[i].first), reduction.give(values[i].second)});
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
  uint64_t at = 0;
  for (; count - at >= 2 * kPair; at += 2 * kPair)
    reduce_pairs<2, E>(reduction, out, in, n, at);
  for (; count - at >= kPair; at += kPair)
    reduce_pairs<1, E>(reduction, out, in, n, at);
  for (; at < count; ++at) {
    float value = reduction.load(input(0)[at]);
    for (uint64_t k = 1; k < n; ++k)
      value = reduction.join(value, reduction.load(input(k)[at]));
    out[at] = reduction.store(value);
  }
}

}  // namespace distwrap::algo::kernels::DW_VARIANT

#endif  // DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_
