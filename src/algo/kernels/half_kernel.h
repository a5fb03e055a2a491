// The reduction kernels of 16-bit floats: widened to f32 in registers, reduced
// there, and rounded once. Each input is read once.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_
#define DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_

#include "algo/kernels/half_lanes.h"
#include "algo/kernels/kernel.h"

#include <cstring>

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

// Reduces from element `at` on, kPairs registers of elements at a time, and
// returns where fewer elements are left. Inlined, so that the values stay in
// registers and a loop over a constant number of inputs disappears.
template <uint64_t kPairs, class E, class R>
[[gnu::always_inline]] inline uint64_t reduce_by_pairs(const R& reduction,
                                                       uint16_t* out,
                                                       const void* const* in,
                                                       uint64_t n, uint64_t at,
                                                       uint64_t count) {
  for (; count - at >= kPairs * kPair; at += kPairs * kPair) {
    Pair values[kPairs];
#pragma GCC unroll 2
    for (uint64_t i = 0; i < kPairs; ++i)
      values[i] = take_pair<E>(reduction, in[0], at + i * kPair);
    for (uint64_t k = 1; k < n; ++k)
#pragma GCC unroll 2
      for (uint64_t i = 0; i < kPairs; ++i)
        values[i] = join_pairs(reduction, values[i],
                               take_pair<E>(reduction, in[k], at + i * kPair));
#pragma GCC unroll 2
    for (uint64_t i = 0; i < kPairs; ++i)
      give_pair<E>(reduction, out + at + i * kPair, values[i]);
  }
  return at;
}

// Reads one to three elements, some of them twice.
inline uint64_t read_rest(const uint16_t* at, uint64_t count) {
  const auto one = [at](uint64_t i) { return uint64_t{at[i]} << 16 * i; };
  return one(0) | one(count / 2) | one(count - 1);
}

inline void write_rest(uint16_t* at, uint64_t count, uint64_t few) {
  for (const uint64_t i : {uint64_t{0}, count / 2, count - 1})
    at[i] = static_cast<uint16_t>(few >> 16 * i);
}

// Reduces the few elements that `read` finds in every input.
template <class E, class R, class Read>
[[gnu::always_inline]] inline uint64_t reduce_few(const R& reduction,
                                                  const void* const* in,
                                                  uint64_t n,
                                                  const Read& read) {
  const auto take = [&](uint64_t k) {
    return reduction.take(
        widen_few(E{}, read(static_cast<const uint16_t*>(in[k]))));
  };
  FewFloats values = take(0);
  for (uint64_t k = 1; k < n; ++k) values = reduction.join(values, take(k));
  return narrow_few(E{}, reduction.give(values));
}

// Reduces fewer than kPair elements: a short call, or the end of a longer one.
template <class E, class R>
[[gnu::always_inline]] inline void reduce_end(const R& reduction, uint16_t* out,
                                              const void* const* in, uint64_t n,
                                              uint64_t at, uint64_t count) {
  for (; count - at >= kFew; at += kFew) {
    const uint64_t few =
        reduce_few<E>(reduction, in, n, [at](const uint16_t* input) {
          uint64_t read;
          std::memcpy(&read, input + at, sizeof read);
          return read;
        });
    std::memcpy(out + at, &few, sizeof few);
  }
  const uint64_t rest = count - at;
  if (rest == 0) return;
  const uint64_t few =
      reduce_few<E>(reduction, in, n, [at, rest](const uint16_t* input) {
        return read_rest(input + at, rest);
      });
  write_rest(out + at, rest, few);
}

template <class E, uint16_t kReduce>
void half_kernel(void* out_memory, const void* const* in, uint64_t n,
                 uint64_t count, const void* operand) {
  using R = Reduction<E, kReduce>;
  const R reduction(operand);
  uint16_t* const out = static_cast<uint16_t*>(out_memory);
  if constexpr (R::kCopiesOne)
    if (n == 1)
      return reduce_one(reduction, out, static_cast<const uint16_t*>(in[0]),
                        count);
  if (n == 2) {
    // The common case of two inputs.
    const void* const two[] = {in[0], in[1]};
    const uint64_t at = reduce_by_pairs<1, E>(reduction, out, two, 2, 0, count);
    return reduce_end<E>(reduction, out, two, 2, at, count);
  }
  uint64_t at = reduce_by_pairs<2, E>(reduction, out, in, n, 0, count);
  at = reduce_by_pairs<1, E>(reduction, out, in, n, at, count);
  reduce_end<E>(reduction, out, in, n, at, count);
}

}  // namespace distwrap::algo::kernels::DW_VARIANT

#endif  // DISTWRAP_SRC_ALGO_KERNELS_HALF_KERNEL_H_
