// The reduction kernels of 16-bit floats: widened to f32 in registers, reduced
// there, and rounded once. Each input is read once.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_
#define DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_

#include "algo/kernels/half_lanes.h"
#include "algo/kernels/kernel.h"

namespace distwrap::algo::kernels::DW_VARIANT {

template <class E, class R>
[[gnu::always_inline]] inline Pair take_pair(const R& reduction,
                                             const void* input, uint64_t at) {
  const Pair pair = load_pair(E{}, static_cast<const uint16_t*>(input) + at);
  return {reduction.take(pair.first), reduction.take(pair.second)};
}

template <class R>
[[gnu::always_inline]] inline Pair join_pairs(const R& reduction, Pair a,
                                              Pair b) {
  return {reduction.join(a.first, b.first), reduction.join(a.second, b.second)};
}

template <class E, class R>
[[gnu::always_inline]] inline void give_pair(const R& reduction, uint16_t* out,
                                             Pair values) {
  store_pair(E{}, out,
             {reduction.give(values.first), reduction.give(values.second)});
}

// Two inputs, as most calls have: how many of `count` are done, up to less than
// a pair of registers full.
template <class E, class R>
uint64_t reduce_two_by_pairs(const R& reduction, uint16_t* out, const void* a,
                             const void* b, uint64_t count) {
  uint64_t at = 0;
  for (; count - at >= kPair; at += kPair)
    give_pair<E>(reduction, out + at,
                 join_pairs(reduction, take_pair<E>(reduction, a, at),
                            take_pair<E>(reduction, b, at)));
  return at;
}

// The same of any. Two pairs at a time, so that one does not wait for another.
template <class E, class R>
uint64_t reduce_by_pairs(const R& reduction, uint16_t* out,
                         const void* const* in, uint64_t n, uint64_t count) {
  uint64_t at = 0;
  for (; count - at >= 2 * kPair; at += 2 * kPair) {
    Pair one = take_pair<E>(reduction, in[0], at);
    Pair two = take_pair<E>(reduction, in[0], at + kPair);
    for (uint64_t k = 1; k < n; ++k) {
      one = join_pairs(reduction, one, take_pair<E>(reduction, in[k], at));
      two = join_pairs(reduction, two,
                       take_pair<E>(reduction, in[k], at + kPair));
    }
    give_pair<E>(reduction, out + at, one);
    give_pair<E>(reduction, out + at + kPair, two);
  }
  return at;
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
  uint64_t at =
      n == 2 ? reduce_two_by_pairs<E>(reduction, out, in[0], in[1], count)
             : reduce_by_pairs<E>(reduction, out, in, n, count);
  for (; at < count; ++at) {
    float value = reduction.load(input(0)[at]);
    for (uint64_t k = 1; k < n; ++k)
      value = reduction.join(value, reduction.load(input(k)[at]));
    out[at] = reduction.store(value);
  }
}

}  // namespace distwrap::algo::kernels::DW_VARIANT

#endif  // DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_
