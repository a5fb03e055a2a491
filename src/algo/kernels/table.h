// The kernels of a variant, by element type and reduction.
#ifndef DISTWRAP_SRC_ALGO_KERNELS_TABLE_H_
#define DISTWRAP_SRC_ALGO_KERNELS_TABLE_H_

#include "algo/kernels/rows.h"

namespace distwrap::algo::kernels::DW_VARIANT {

const Row* row_of(dw_dtype dtype) {
  if (dtype.lanes != 1) return nullptr;
  switch (dtype.code << 8 | dtype.bits) {
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  case (code) << 8 | (bits): {                                       \
    static constexpr Row kRow =                                      \
        row_of<decltype(element_of<code, bits, storage>())>();       \
    return &kRow;                                                    \
  }
#include "distwrap/abi/dtypes.def"
    default:
      return nullptr;
  }
}

dw_reduce_fn find(dw_dtype dtype, uint16_t reduce) {
  const Row* const row = row_of(dtype);
  return row == nullptr || reduce >= row->size() ? nullptr : (*row)[reduce];
}

}  // namespace distwrap::algo::kernels::DW_VARIANT

#endif  // DISTWRAP_SRC_ALGO_KERNELS_TABLE_H_
