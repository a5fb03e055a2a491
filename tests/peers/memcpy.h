// The machine's own limit: every rank copies the bytes of its larger buffer,
// all ranks at the same time.
#ifndef DISTWRAP_TESTS_PEERS_MEMCPY_H_
#define DISTWRAP_TESTS_PEERS_MEMCPY_H_

#include "bench/contestant.h"

#include <absl/status/statusor.h>

#include <memory>

namespace distwrap::peers {

absl::StatusOr<std::unique_ptr<bench::Contestant>> make_memcpy(
    const bench::Setup& setup);

}  // namespace distwrap::peers

#endif  // DISTWRAP_TESTS_PEERS_MEMCPY_H_
