// The sum of rows of a mixture of experts (abi/moe.h, dw_moe_sum_api).
//
// The rows are read side by side, a block of each at a time: the sums of a
// block stay in the first-level cache, and memory is read in several places at
// once. The loops over a block are written for the compiler's vectoriser.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_ROW_SUM_H_
#define DISTWRAP_SRC_ALGO_KERNELS_ROW_SUM_H_

#include "algo/kernels/element.h"
#include "algo/kernels/variants.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace distwrap::algo::kernels::DW_VARIANT {

// Numbers of a block.
inline constexpr uint64_t kSumBlock = 512;

constexpr int key_of(dw_dtype dtype) { return dtype.code << 8 | dtype.bits; }
inline constexpr int kI32 = 0 << 8 | 32, kF16 = 2 << 8 | 16, kF32 = 2 << 8 | 32,
                     kF64 = 2 << 8 | 64, kBF16 = 4 << 8 | 16;

// An element as a term of a sum. A float among integers is cut off, and is the
// least integer where it is none.
template <class Sum, class Value>
Sum to_sum(Value x) {
  if constexpr (std::is_integral_v<Sum> && std::is_floating_point_v<Value>)
    return static_cast<Sum>(
        x >= -0x1p63f && x < 0x1p63f ? static_cast<int64_t>(x) : INT64_MIN);
  else
    return static_cast<Sum>(x);
}

template <class E, class Sum, bool kAdd, bool kWeighted>
[[gnu::noinline]] void accumulate(Sum* sum, const char* from, uint64_t count,
                                  float weight) {
  for (uint64_t i = 0; i < count; ++i) {
    typename E::Storage stored;
    std::memcpy(&stored, from + i * sizeof stored, sizeof stored);
    Sum value = to_sum<Sum>(E::load(stored));
    if constexpr (kWeighted) value = static_cast<Sum>(weight) * value;
    if constexpr (kAdd)
      sum[i] += value;
    else
      sum[i] = value;
  }
}

template <class Sum>
using Accumulate = void (*)(Sum*, const char*, uint64_t, float);

// How numbers of a type come into a sum.
template <class Sum>
struct Accumulators {
  Accumulate<Sum> set, add;
};
template <class E, class Sum>
Accumulators<Sum> accumulators_as(bool weighted) {
  if constexpr (std::is_floating_point_v<Sum>)
    if (weighted)
      return {accumulate<E, Sum, false, true>, accumulate<E, Sum, true, true>};
  return {accumulate<E, Sum, false, false>, accumulate<E, Sum, true, false>};
}
template <class Sum>
Accumulators<Sum> accumulators_of(dw_dtype dtype, bool weighted) {
  const int key = key_of(dtype);
  if (key == kF32) return accumulators_as<Plain<float>, Sum>(weighted);
  if constexpr (std::is_same_v<Sum, float>)
    return key == kF16 ? accumulators_as<F16, Sum>(weighted)
                       : accumulators_as<BF16, Sum>(weighted);
  else
    return accumulators_as<Plain<Sum>, Sum>(weighted);
}

struct WritesF16 {
  using Storage = uint16_t;
  static Storage store(float x) { return dw_sdk::f32_to_f16(x); }
};
struct WritesBF16 {
  using Storage = uint16_t;
  static Storage store(float x) { return dw_sdk::f32_to_bf16(x); }
};
template <class T>
struct Writes {
  using Storage = T;
  template <class Sum>
  static T store(Sum x) {
    if constexpr (std::is_unsigned_v<Sum> && std::is_floating_point_v<T>)
      return static_cast<T>(static_cast<std::make_signed_t<Sum>>(x));
    else
      return static_cast<T>(x);
  }
};

#if defined(__x86_64__)
inline constexpr uint64_t kStreamed = sizeof(__m128i);
inline void stream(char* to, const void* from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kStreamed) {
    __m128i part;
    std::memcpy(&part, static_cast<const char*>(from) + at, sizeof part);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), part);
  }
}
inline void order_streams() { _mm_sfence(); }
#else
inline constexpr uint64_t kStreamed = 1;
inline void stream(char* to, const void* from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
}
inline void order_streams() {}
#endif

template <class W, class Sum>
[[gnu::noinline]] void write_as(const Sum* sum, char* to, uint64_t count,
                                bool past) {
  typename W::Storage stored[kSumBlock];
  for (uint64_t i = 0; i < count; ++i) stored[i] = W::store(sum[i]);
  const uint64_t bytes = count * sizeof *stored;
  if (past &&
      (reinterpret_cast<uintptr_t>(to) % kStreamed | bytes % kStreamed) == 0)
    stream(to, stored, bytes);
  else
    std::memcpy(to, stored, bytes);
}

template <class Sum>
using Write = void (*)(const Sum*, char*, uint64_t, bool);

template <class Sum>
Write<Sum> writes_of(dw_dtype dtype) {
  const int key = key_of(dtype);
  if constexpr (std::is_same_v<Sum, float>) {
    if (key == kF16) return write_as<WritesF16, Sum>;
    if (key == kBF16) return write_as<WritesBF16, Sum>;
  }
  if (key == kF32) return write_as<Writes<float>, Sum>;
  return write_as<Writes<Sum>, Sum>;
}

// The three sums of a block, each empty until its first operand.
template <class Sum>
struct BlockSums {
  Sum memory[3][kSumBlock];
  Sum* at[3] = {memory[0], memory[1], memory[2]};
  bool has[3] = {};

  void close(int from, int into, uint64_t count) {
    if (!has[from]) return;
    has[from] = false;
    if (!has[into]) {
      Sum* const part = at[from];
      at[from] = at[into];
      at[into] = part;
      has[into] = true;
      return;
    }
    Sum* const to = at[into];
    const Sum* const part = at[from];
    for (uint64_t i = 0; i < count; ++i) to[i] += part[i];
  }
};

template <class Sum>
void sum_as(void* out, dw_dtype out_type, const dw_moe_operand* operands,
            uint64_t n, uint64_t width, uint32_t flags) {
  const bool weighted = (flags & DW_MOE_SUM_WEIGHTED) != 0;
  const bool past = (flags & DW_MOE_SUM_PAST_CACHES) != 0;
  const Write<Sum> write = writes_of<Sum>(out_type);
  const uint64_t out_bytes = out_type.bits / 8;
  for (uint64_t begin = 0; begin < width; begin += kSumBlock) {
    const uint64_t count =
        width - begin < kSumBlock ? width - begin : kSumBlock;
    BlockSums<Sum> sums;
    for (uint64_t k = 0; k < n; ++k) {
      const dw_moe_operand& operand = operands[k];
      const Accumulators<Sum> how =
          accumulators_of<Sum>(operand.dtype, weighted);
      const int into = operand.into % 3;
      (sums.has[into] ? how.add : how.set)(
          sums.at[into],
          static_cast<const char*>(operand.at) +
              begin * (operand.dtype.bits / 8),
          count, operand.weight);
      sums.has[into] = true;
      if ((operand.then & DW_MOE_CLOSE_0) != 0) sums.close(0, 1, count);
      if ((operand.then & DW_MOE_CLOSE_1) != 0) sums.close(1, 2, count);
    }
    if (!sums.has[2]) std::memset(sums.at[2], 0, sizeof sums.memory[2]);
    write(sums.at[2], static_cast<char*>(out) + begin * out_bytes, count, past);
  }
  if (past) order_streams();
}

void sum_rows(void* out, dw_dtype out_type, dw_dtype in,
              const dw_moe_operand* operands, uint64_t n, uint64_t width,
              uint32_t flags) {
  // A term that is alone and does not change is copied, with the bits of its
  // NaNs.
  if (n == 1 && (flags & DW_MOE_SUM_WEIGHTED) == 0 &&
      key_of(operands->dtype) == key_of(out_type)) {
    std::memcpy(out, operands->at, width * (out_type.bits / 8u));
    return;
  }
  switch (key_of(in)) {
    case kF64:
      return sum_as<double>(out, out_type, operands, n, width, flags);
    case kI32:
      return sum_as<uint32_t>(out, out_type, operands, n, width, flags);
    case kF16:
    case kBF16:
    case kF32:
      return sum_as<float>(out, out_type, operands, n, width, flags);
    default:
      return sum_as<uint64_t>(out, out_type, operands, n, width, flags);
  }
}

}  // namespace distwrap::algo::kernels::DW_VARIANT

#endif  // DISTWRAP_SRC_ALGO_KERNELS_ROW_SUM_H_
