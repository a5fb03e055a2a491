// The loops of a reduction kernel: dw_reduce_fn for one element type and one
// reduction.
//
// They are written for the compiler's vectoriser. The output may be exactly one
// of the inputs: each element is read before it is written, so iterations are
// independent, as the pragma states.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_KERNEL_H_
#define DISTWRAP_SRC_ALGO_KERNELS_KERNEL_H_

#include "algo/kernels/reduction.h"

#include <cstdint>
#include <cstring>

#if defined(__clang__)
#define DW_ITERATIONS_ARE_INDEPENDENT \
  _Pragma("clang loop vectorize(assume_safety)")
#else
#define DW_ITERATIONS_ARE_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace distwrap::algo::kernels::DW_VARIANT {

// This many values stay in the first-level cache while the inputs are read.
inline constexpr uint64_t kBlock = 512;

template <class R>
void reduce_one(const R& reduction, typename R::Storage* out,
                const typename R::Storage* a, uint64_t count) {
  if constexpr (R::kCopiesOne) {
    if (out != a && count != 0) std::memcpy(out, a, count * sizeof *out);
  } else {
    DW_ITERATIONS_ARE_INDEPENDENT
    for (uint64_t i = 0; i < count; ++i)
      out[i] = reduction.store(reduction.load(a[i]));
  }
}

template <class R>
void reduce_two(const R& reduction, typename R::Storage* out,
                const typename R::Storage* a, const typename R::Storage* b,
                uint64_t count) {
  DW_ITERATIONS_ARE_INDEPENDENT
  for (uint64_t i = 0; i < count; ++i)
    out[i] = reduction.store(
        reduction.join(reduction.load(a[i]), reduction.load(b[i])));
}

// Joins two more inputs into `values`. A function of its own, because gcc
// otherwise merges it with the surrounding loop and does not vectorise it.
template <class R>
[[gnu::noinline]] void join_two(const R& reduction, typename R::Value* values,
                                const typename R::Storage* a,
                                const typename R::Storage* b, uint64_t count) {
  DW_ITERATIONS_ARE_INDEPENDENT
  for (uint64_t i = 0; i < count; ++i)
    values[i] = reduction.join(reduction.join(values[i], reduction.load(a[i])),
                               reduction.load(b[i]));
}

// Reduces three or more inputs from element `begin` on; count <= kBlock.
template <class R>
void reduce_block(const R& reduction, typename R::Storage* out,
                  const void* const* in, uint64_t n, uint64_t begin,
                  uint64_t count) {
  using Storage = typename R::Storage;
  const auto input = [&](uint64_t k) {
    return static_cast<const Storage*>(in[k]) + begin;
  };
  typename R::Value values[kBlock];
  const Storage* a = input(0);
  const Storage* b = input(1);
  DW_ITERATIONS_ARE_INDEPENDENT
  for (uint64_t i = 0; i < count; ++i)
    values[i] = reduction.join(reduction.load(a[i]), reduction.load(b[i]));
  uint64_t next = 2;
  for (; n - next > 2; next += 2)
    join_two(reduction, values, input(next), input(next + 1), count);
  a = input(next);
  b = input(n - 1);
  if (n - next == 1) {
    DW_ITERATIONS_ARE_INDEPENDENT
    for (uint64_t i = 0; i < count; ++i)
      out[begin + i] =
          reduction.store(reduction.join(values[i], reduction.load(a[i])));
  } else {
    DW_ITERATIONS_ARE_INDEPENDENT
    for (uint64_t i = 0; i < count; ++i)
      out[begin + i] = reduction.store(
          reduction.join(reduction.join(values[i], reduction.load(a[i])),
                         reduction.load(b[i])));
  }
}

template <class E, uint16_t kReduce>
void kernel(void* out_memory, const void* const* in, uint64_t n, uint64_t count,
            const void* operand) {
  using Storage = typename E::Storage;
  const Reduction<E, kReduce> reduction(operand);
  Storage* const out = static_cast<Storage*>(out_memory);
  if (n == 1)
    return reduce_one(reduction, out, static_cast<const Storage*>(in[0]),
                      count);
  if (n == 2)
    return reduce_two(reduction, out, static_cast<const Storage*>(in[0]),
                      static_cast<const Storage*>(in[1]), count);
  for (uint64_t begin = 0; begin < count; begin += kBlock)
    reduce_block(reduction, out, in, n, begin,
                 count - begin < kBlock ? count - begin : kBlock);
}

}  // namespace distwrap::algo::kernels::DW_VARIANT

#endif  // DISTWRAP_SRC_ALGO_KERNELS_KERNEL_H_
