// The host's reduction kernels, which backends reach through the host's table.
//
// Threads: any; a kernel has no state.
// Ownership: the caller's memory, read and written during the call only.
//
//   const void* const in[] = {mine, theirs};
//   algo::reduce_kernel({2, 32, 1}, DW_REDUCE_SUM)(mine, in, 2, count,
//                                                  nullptr);
#ifndef DISTWRAP_SRC_ALGO_REDUCE_KERNELS_H_
#define DISTWRAP_SRC_ALGO_REDUCE_KERNELS_H_

#include "distwrap/abi/moe.h"
#include "distwrap/abi/plugin.h"

#include <vector>

namespace distwrap::algo {

// The kernel of an element type and a reduction, as dw_reduce_fn (abi/plugin.h)
// and the tables of both define it; NULL where the tables have none, as for a
// bitwise reduction of floats. The same inputs in the same order give the same
// bits. The first call chooses the best kernels for this machine's processor.
dw_reduce_fn reduce_kernel(dw_dtype dtype, uint16_t reduce);

// The sums of rows of experts (abi/moe.h), with the best kernels for this
// machine's processor.
const dw_moe_sum_api& row_sums();

// All variants that run on this machine, the best one first. They give the same
// bits, except for the payload of a NaN.
struct KernelVariant {
  const char* name;
  dw_reduce_fn (*find)(dw_dtype dtype, uint16_t reduce);
  decltype(dw_moe_sum_api::sum) sum_rows;
};
std::vector<KernelVariant> kernel_variants();

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_REDUCE_KERNELS_H_
