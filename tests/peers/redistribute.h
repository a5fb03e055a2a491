// Collectives as redistributions of tensors, over shm: the cost of plans and
// their prepared steps beside the collectives that they are made of.
#ifndef DISTWRAP_TESTS_PEERS_REDISTRIBUTE_H_
#define DISTWRAP_TESTS_PEERS_REDISTRIBUTE_H_

#include "bench/contestant.h"

#include <absl/status/statusor.h>

#include <memory>

namespace distwrap::peers {

absl::StatusOr<std::unique_ptr<bench::Contestant>> make_redistribute(
    const bench::Setup& setup);

}  // namespace distwrap::peers

#endif  // DISTWRAP_TESTS_PEERS_REDISTRIBUTE_H_
