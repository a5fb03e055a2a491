// Element types by index, as in capability masks.
#ifndef DISTWRAP_SRC_ALGO_BELOW_DTYPES_H_
#define DISTWRAP_SRC_ALGO_BELOW_DTYPES_H_

#include "distwrap/abi/types.h"

#include <cstdint>
#include <iterator>

namespace distwrap::algo {

inline constexpr dw_dtype kDTypeOf[] = {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  {code, bits, 1},
#include "distwrap/abi/dtypes.def"
};

inline constexpr int kDTypes = static_cast<int>(std::size(kDTypeOf));

// DW_DTYPE_<NAME>, or -1 for a type that this version does not know.
inline int dtype_index(dw_dtype dtype) {
  if (dtype.lanes != 1) return -1;
  switch (dtype.code << 8 | dtype.bits) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  case (code) << 8 | (bits):                                         \
    return index;
#include "distwrap/abi/dtypes.def"
    default:
      return -1;
  }
}

inline uint64_t dtype_bytes(int dtype) { return kDTypeOf[dtype].bits / 8u; }

inline bool is_half(int dtype) {
  return dtype == DW_DTYPE_F16 || dtype == DW_DTYPE_BF16;
}

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_BELOW_DTYPES_H_
