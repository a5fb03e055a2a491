// Why a communicator broke: told once, the same to every operation it takes
// with it.
#ifndef DISTWRAP_BACKENDS_GLOO_FAILURE_H_
#define DISTWRAP_BACKENDS_GLOO_FAILURE_H_

#include "distwrap/abi/types.h"

#include <atomic>
#include <mutex>

struct dw_comm;

namespace gloo_backend {

class FirstFailure {
 public:
  // Of a communicator in which an operation failed with `cause`. The first call
  // looks which peers have gone, then ends all connections, so that the others
  // learn; later ones repeat what it found. Returns the code.
  int32_t fail(dw_comm* comm, const char* cause, dw_error* error);

  // DW_OK, or why nothing can be started any more.
  int32_t check(const dw_comm* comm, dw_error* error);

 private:
  std::mutex mutex_;
  std::atomic<bool> broken_ = false;
  dw_error first_ = {};  // of value once broken
};

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_FAILURE_H_
