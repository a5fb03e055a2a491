// Ranks as threads: the simplest and fastest of the harnesses.
#ifndef DISTWRAP_TESTS_RANKS_RANK_THREADS_H_
#define DISTWRAP_TESTS_RANKS_RANK_THREADS_H_

#include "distwrap/session.h"

#include <functional>

namespace distwrap::testing {

// Starts `n` threads that meet in one in-memory store, each with a session of
// its own; runs `body` in each; closes the sessions. Fails the test when a
// session cannot be made. `options` has the further options (backend,
// timeouts).
void run_ranks(int n, const InitOptions& options,
               const std::function<void(Session&)>& body);

// Runs `run_ranks` over each of host_backends(), one after the other; a single
// rank runs over the loopback alone. A failure names its backend.
void run_over_each(int n, InitOptions options,
                   const std::function<void(Session&)>& body);

// Runs threads without sessions: `body(rank, options)` makes its own session
// from options that have rank, world size and store.
void run_rank_threads(int n, const InitOptions& options,
                      const std::function<void(int, const InitOptions&)>& body);

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_RANK_THREADS_H_
