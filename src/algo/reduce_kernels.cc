#include "algo/reduce_kernels.h"

#include <concepts>
#include <type_traits>

namespace distwrap::algo {
namespace {

struct Sum {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::integral<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  }
};

struct Max {
  template <class T>
  static T of(T a, T b) {
    // A NaN differs from itself; one in b wins because no comparison holds.
    return a > b || a != a ? a : b;
  }
};

template <class T, class Reduction>
void kernel(void* out, const void* a, const void* b, uint64_t count) {
  T* const o = static_cast<T*>(out);
  const T* const x = static_cast<const T*>(a);
  const T* const y = static_cast<const T*>(b);
  for (uint64_t i = 0; i < count; ++i) o[i] = Reduction::of(x[i], y[i]);
}

template <class T>
dw_reduce_fn kernel_of(uint16_t reduce) {
  switch (reduce) {
    case DW_REDUCE_SUM:
      return kernel<T, Sum>;
    case DW_REDUCE_MAX:
      return kernel<T, Max>;
    default:
      return nullptr;
  }
}

bool equals(dw_dtype a, uint8_t code, uint8_t bits) {
  return a.code == code && a.bits == bits && a.lanes == 1;
}

}  // namespace

dw_reduce_fn reduce_kernel(dw_dtype dtype, uint16_t reduce) {
  if (equals(dtype, 2, 32)) return kernel_of<float>(reduce);
  if (equals(dtype, 0, 64)) return kernel_of<int64_t>(reduce);
  return nullptr;
}

}  // namespace distwrap::algo
