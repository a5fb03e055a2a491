// Running an operation to its end in the calling thread, by Gloo.
#ifndef DISTWRAP_BACKENDS_GLOO_RUN_H_
#define DISTWRAP_BACKENDS_GLOO_RUN_H_

#include "call.h"
#include "distwrap/abi/plugin.h"

namespace gloo_backend {

// DW_OK, or an error. What Gloo throws breaks the communicator.
int32_t run(dw_comm* comm, const Call& call, dw_error* error);

// Gloo has a reduce_scatter for powers of two that works in its input only, so
// this is ours. Throws what Gloo throws.
int32_t reduce_scatter(dw_comm* comm, const Call& call, dw_error* error);

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_RUN_H_
