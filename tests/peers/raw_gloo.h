// Gloo itself, called as its own benchmark calls it: TCP over loopback; options
// and buffers are made once, outside of the timed loop.
//
// Threads: used by one. Ownership: the contestant owns its context.
#ifndef DISTWRAP_TESTS_PEERS_RAW_GLOO_H_
#define DISTWRAP_TESTS_PEERS_RAW_GLOO_H_

#include "bench/contestant.h"

#include <absl/status/statusor.h>

#include <memory>

namespace distwrap::peers {

// Collective: connects all pairs of ranks, which meet in the setup's store.
absl::StatusOr<std::unique_ptr<bench::Contestant>> make_raw_gloo(
    const bench::Setup& setup);

}  // namespace distwrap::peers

#endif  // DISTWRAP_TESTS_PEERS_RAW_GLOO_H_
