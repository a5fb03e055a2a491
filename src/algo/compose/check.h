// Whether an operation that is to be composed is well formed.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_CHECK_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_CHECK_H_

#include "distwrap/abi/types.h"

namespace distwrap::algo::compose {

// The reading rule; without a copy when the struct is of this version's size.
int32_t read_op(dw_op* space, const dw_op** op, const dw_op* given,
                dw_error* error);

// The dtype of the buffers as DW_DTYPE_<NAME>, 0 for a barrier, -1 for one that
// is not known.
int op_dtype(const dw_op& op);

// All that a host would have refused; DW_OK when all is well.
int32_t check_op(const dw_op& op, int rank, int size, dw_error* error);

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_CHECK_H_
