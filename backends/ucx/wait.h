// How a thread waits for its transfer: it drives the worker for as long as a
// running peer may need, then yields the processor, then sleeps.
#ifndef DISTWRAP_BACKENDS_UCX_WAIT_H_
#define DISTWRAP_BACKENDS_UCX_WAIT_H_

#include "transfer.h"
#include "worker.h"

namespace ucx_backend {

struct Comm;

// Waits until the transfer has ended, well or not; `hold` holds that worker. A
// wait that reaches the deadline breaks the communicator or window of the
// worker.
void wait_for(const Comm* comm, Worker& worker, Worker::Hold& hold,
              Transfer& transfer);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_WAIT_H_
