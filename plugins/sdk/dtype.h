/* Element types: DLPack's triple, the bit index of capability masks, sizes. */
#ifndef DISTWRAP_PLUGINS_SDK_DTYPE_H_
#define DISTWRAP_PLUGINS_SDK_DTYPE_H_

#include "distwrap/abi/types.h"

/* DW_DTYPE_<NAME>, or -1 for a type that this version does not know. */
static inline int dw_dtype_index(dw_dtype dtype) {
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

/* The triple of DW_DTYPE_<NAME>; all zero for an unknown index. */
static inline dw_dtype dw_dtype_of(int index) {
  dw_dtype dtype = {0, 0, 0};
  switch (index) {
#define DW_DTYPE(index, name, enumerator, text, code_, bits_, storage) \
  case index:                                                          \
    dtype.code = code_;                                                \
    dtype.bits = bits_;                                                \
    dtype.lanes = 1;                                                   \
    break;
#include "distwrap/abi/dtypes.def"
    default:
      break;
  }
  return dtype;
}

static inline int dw_dtype_equal(dw_dtype a, dw_dtype b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/* Bytes of one element, 0 for a type that this version does not know. */
static inline uint64_t dw_dtype_bytes(dw_dtype dtype) {
  return dw_dtype_index(dtype) < 0 ? 0 : (uint64_t)dtype.bits / 8;
}

#endif /* DISTWRAP_PLUGINS_SDK_DTYPE_H_ */
