// Host reduction kernels, which backends get through the host table.
//
// Threads: any; a kernel has no state.
// Ownership: the caller's memory, looked at during the call only.
//
//   const void* const in[] = {mine, theirs};
//   algo::reduce_kernel({2, 32, 1}, DW_REDUCE_SUM)(mine, in, 2, count,
//   nullptr);
#ifndef DISTWRAP_SRC_ALGO_REDUCE_KERNELS_H_
#define DISTWRAP_SRC_ALGO_REDUCE_KERNELS_H_

#include "distwrap/abi/plugin.h"

#include <vector>

namespace distwrap::algo {

// The kernel of a pair, as dw_reduce_fn (abi/plugin.h) and the tables of
// element types and reductions say; NULL where the tables have none, as for a
// bitwise reduction of floats. The same inputs in the same order give the same
// bits.
// The best ones for this machine's processor, chosen at the first call.
dw_reduce_fn reduce_kernel(dw_dtype dtype, uint16_t reduce);

// All that run on this machine, the best one first. They give the same bits,
// but for the payload of a NaN.
struct KernelVariant {
  const char* name;
  dw_reduce_fn (*find)(dw_dtype dtype, uint16_t reduce);
};
std::vector<KernelVariant> kernel_variants();

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_REDUCE_KERNELS_H_
