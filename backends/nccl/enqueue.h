// Says an operation in NCCL's words.
#ifndef DISTWRAP_BACKENDS_NCCL_ENQUEUE_H_
#define DISTWRAP_BACKENDS_NCCL_ENQUEUE_H_

#include "backend.h"

namespace nccl_backend {

inline constexpr int kNoReduction = -1;

// Makes the reduction of a premul_sum, which the caller destroys after the
// launch. Not within a group of NCCL. Precondition: read_call has accepted
// `op`.
int make_reduction(const Comm& comm, const dw_op& op,
                   const dw_sdk::Buffers& buffers, int* reduction);

// Puts `op` on `stream`, as one or more calls of NCCL within a group of NCCL
// that the caller opens and closes. `reduction` is that of make_reduction, or
// none. Returns ncclSuccess, or NCCL's first other answer and in `*what` the
// call that gave it.
int enqueue(const Comm& comm, const dw_op& op, const dw_sdk::Buffers& buffers,
            int reduction, CUstream_st* stream, const char** what);

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_ENQUEUE_H_
