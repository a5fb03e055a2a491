// Ranks as threads: the first and fastest of the harnesses.
#ifndef DISTWRAP_TESTS_RANKS_RANK_THREADS_H_
#define DISTWRAP_TESTS_RANKS_RANK_THREADS_H_

#include "distwrap/session.h"

#include <functional>

namespace distwrap::testing {

// Starts `n` threads that meet in one in-memory store, each with a session of
// its own; runs `body` in each; closes the sessions. Fails the test when a
// session cannot be made. `options` says the rest (backend, timeouts).
void run_ranks(int n, const InitOptions& options,
               const std::function<void(Session&)>& body);

// The same without sessions: `body(rank, options)` makes its own, with rank,
// world size and store filled in.
void run_rank_threads(int n, const InitOptions& options,
                      const std::function<void(int, const InitOptions&)>& body);

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_RANK_THREADS_H_
