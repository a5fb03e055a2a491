// Waiting until no thread is in a call that began before.
//
// Each thread counts the calls that it is in, and the outermost calls that have
// ended. The callers write both without a fence; the waiter makes all threads
// pass one by membarrier(2).
//
// Source: the idea of asymmetric fences is that of user-space RCU (Desnoyers
// et al. 2012).
#ifndef DISTWRAP_SRC_DISPATCH_QUIESCENCE_H_
#define DISTWRAP_SRC_DISPATCH_QUIESCENCE_H_

#include "distwrap/deadline.h"

#include <functional>

namespace distwrap::dispatch {

// Whether all calls that had begun before this one have ended; waits for them
// until the deadline. False also in a call, which would wait for itself, and
// where the kernel has no membarrier.
// `left`, if given, is the number of threads that are still in such calls; -1
// where nobody can tell.
bool wait_for_calls(Deadline deadline, int* left = nullptr);

// Calls `free` once no call can see what it frees: now or at a later retire.
void retire(std::function<void()> free);

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_SRC_DISPATCH_QUIESCENCE_H_
