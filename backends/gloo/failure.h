// Turns an exception of Gloo into the first failure of a communicator.
#ifndef DISTWRAP_BACKENDS_GLOO_FAILURE_H_
#define DISTWRAP_BACKENDS_GLOO_FAILURE_H_

#include "distwrap/abi/types.h"

struct dw_comm;

namespace gloo_backend {

// Breaks the communicator by `cause` and the peers whose connections have
// ended, or repeats the failure that broke it. Returns the code.
int32_t fail(dw_comm* comm, const char* cause, dw_error* error);
// The exception that is being handled: Gloo's, or an allocation that failed.
int32_t fail_by_exception(dw_comm* comm, dw_error* error);

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_FAILURE_H_
