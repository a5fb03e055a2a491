// Checks that an operation to compose is well formed.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_CHECK_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_CHECK_H_

#include "distwrap/abi/types.h"

namespace distwrap::algo::compose {

// Applies the ABI's reading rule, without a copy when the struct has this
// version's size.
int32_t read_op(dw_op* space, const dw_op** op, const dw_op* given,
                dw_error* error);

// The element type of the buffers as DW_DTYPE_<NAME>; 0 for a barrier, -1 for
// an unknown type.
int op_dtype(const dw_op& op);

// The bytes of one rank's n elements of a collective (abi/ops.def): equal on
// all ranks of a right call without counts per rank.
uint64_t part_bytes(const dw_op& op, int size);

// Makes all checks of a host; DW_OK when none fails.
int32_t check_op(const dw_op& op, int rank, int size, dw_error* error);

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_CHECK_H_
