// Host reduction kernels, which backends get through the host table.
#ifndef DISTWRAP_SRC_ALGO_REDUCE_KERNELS_H_
#define DISTWRAP_SRC_ALGO_REDUCE_KERNELS_H_

#include "distwrap/abi/plugin.h"

namespace distwrap::algo {

// out[i] = a[i] (+) b[i]; NULL where there is no kernel. f32 and i64, sum and
// max; integers wrap, NaN wins.
dw_reduce_fn reduce_kernel(dw_dtype dtype, uint16_t reduce);

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_REDUCE_KERNELS_H_
