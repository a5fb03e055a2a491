// Atomic operations of windows, element by element, on memory that this process
// has mapped. Operations on elements of equal size are atomic with respect to
// each other, whatever the element types, because each of them exchanges a
// whole element.
#ifndef DISTWRAP_PLUGINS_SDK_ATOMICS_H_
#define DISTWRAP_PLUGINS_SDK_ATOMICS_H_

#include "distwrap/abi/plugin.h"
#include "sdk/fail.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dw_sdk {
namespace atomics {

// Element `index` of an array as raw bits.
template <class Bits>
Bits bits_at(const void* from, int64_t index) {
  Bits bits;
  std::memcpy(
      &bits,
      static_cast<const char*>(from) + static_cast<size_t>(index) * sizeof bits,
      sizeof bits);
  return bits;
}
template <class Bits>
void keep(void* to, int64_t index, Bits bits) {
  if (to != nullptr)
    std::memcpy(
        static_cast<char*>(to) + static_cast<size_t>(index) * sizeof bits,
        &bits, sizeof bits);
}

template <class Bits>
void add_all(Bits* at, const void* in, void* old, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    keep(old, i,
         __atomic_fetch_add(at + i, bits_at<Bits>(in, i), __ATOMIC_ACQ_REL));
}

template <class Bits>
void reduce_all(Bits* at, const void* in, void* old, int64_t n,
                dw_reduce_fn kernel) {
  for (int64_t i = 0; i < n; ++i) {
    const Bits operand = bits_at<Bits>(in, i);
    Bits found = __atomic_load_n(at + i, __ATOMIC_RELAXED), next;
    do {
      const void* const terms[] = {&found, &operand};
      kernel(&next, terms, 2, 1, nullptr);
    } while (!__atomic_compare_exchange_n(at + i, &found, next, true,
                                          __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    keep(old, i, found);
  }
}

// `kernel` is NULL for integer sums, which need none.
template <class Bits>
void run(const dw_op& op, char* where, dw_reduce_fn kernel) {
  auto* const at = reinterpret_cast<Bits*>(where);
  if (op.kind == DW_OP_COMPARE_SWAP) {
    Bits found = bits_at<Bits>(op.in.data, 0);
    __atomic_compare_exchange_n(at, &found, bits_at<Bits>(op.in.data, 1), false,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    keep(op.out.data, 0, found);
    return;
  }
  void* const old = op.kind == DW_OP_FETCH_OP ? op.out.data : nullptr;
  if (kernel == nullptr)
    add_all(at, op.in.data, old, op.in.count);
  else
    reduce_all(at, op.in.data, old, op.in.count, kernel);
}

}  // namespace atomics

inline bool is_integer_sum(const dw_op& op) {
  constexpr uint8_t kUnsigned = 1;  // DLPack's codes: 0 is signed
  return op.reduce == DW_REDUCE_SUM && op.in.dtype.code <= kUnsigned;
}

// Finds the kernel of an accumulate or fetch_op; NULL when the operation needs
// none. Returns DW_OK, or the code of the refusal. `place` is the byte offset
// or address of the first element, whose alignment is checked.
inline int32_t check_atomic(const dw_host_api& host, const dw_op& op,
                            uint64_t place, dw_reduce_fn* kernel,
                            dw_error* error) {
  *kernel = nullptr;
  const unsigned size = op.in.dtype.bits / 8u;
  if (size != 1 && size != 2 && size != 4 && size != 8)
    return dw_unsupported(error, "elements of this size are not atomic");
  if (place % size != 0)
    return dw_invalid(error, "the place is not aligned to the element");
  if (op.kind == DW_OP_COMPARE_SWAP) return DW_OK;
  if (op.reduce < DW_REDUCE_SUM || op.reduce > DW_REDUCE_BXOR)
    return dw_unsupported(error, "this reduction is not atomic");
  if (is_integer_sum(op)) return DW_OK;
  *kernel = host.reduce_kernel(host.self, op.in.dtype, op.reduce);
  if (*kernel == nullptr)
    return dw_unsupported(error, "the reduction is not of this type");
  return DW_OK;
}

// Runs an accumulate, fetch_op or compare_swap at `at`.
inline int32_t run_atomic(const dw_host_api& host, const dw_op& op, char* at,
                          dw_error* error) {
  dw_reduce_fn kernel;
  if (int32_t code = check_atomic(host, op, reinterpret_cast<uintptr_t>(at),
                                  &kernel, error))
    return code;
  switch (op.in.dtype.bits / 8u) {
    case 1:
      atomics::run<uint8_t>(op, at, kernel);
      break;
    case 2:
      atomics::run<uint16_t>(op, at, kernel);
      break;
    case 4:
      atomics::run<uint32_t>(op, at, kernel);
      break;
    default:
      atomics::run<uint64_t>(op, at, kernel);
  }
  return DW_OK;
}

}  // namespace dw_sdk

#endif  // DISTWRAP_PLUGINS_SDK_ATOMICS_H_
