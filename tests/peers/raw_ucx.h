// UCX itself with tagged messages and one-sided operations (ucp), called as its
// own benchmark calls them: the waiting thread drives the worker, and UCX
// chooses the transports.
//
// Threads: used by one. Ownership: the contestant owns worker and endpoints.
#ifndef DISTWRAP_TESTS_PEERS_RAW_UCX_H_
#define DISTWRAP_TESTS_PEERS_RAW_UCX_H_

#include "bench/contestant.h"

#include <absl/status/statusor.h>

#include <memory>

namespace distwrap::peers {

// Collective: connects all pairs of ranks, which meet in the setup's store.
absl::StatusOr<std::unique_ptr<bench::Contestant>> make_raw_ucx(
    const bench::Setup& setup);
// Makes it with connections that UCX watches, as the backend ucx has them
// between hosts.
absl::StatusOr<std::unique_ptr<bench::Contestant>> make_raw_ucx_watched(
    const bench::Setup& setup);

}  // namespace distwrap::peers

#endif  // DISTWRAP_TESTS_PEERS_RAW_UCX_H_
