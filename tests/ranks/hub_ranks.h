// Ranks as threads over backends of this process, which need no sockets:
// "perfect" for host memory, "faux" for a second device, "streams" for one with
// streams, and "messages", which has only those, so that all else is composed.
#ifndef DISTWRAP_TESTS_RANKS_HUB_RANKS_H_
#define DISTWRAP_TESTS_RANKS_HUB_RANKS_H_

#include "distwrap/session.h"

#include <functional>
#include <memory>
#include <optional>

namespace distwrap::testing {

// A session of one of `n` ranks that meet in `store`; its backend may be any
// backend string of these names and those that are linked in. `goodbye`: how
// long the end of a group waits for ranks that end it at another time; unset:
// hardly, but over gloo.
absl::StatusOr<Session> hub_session(
    int rank, int n, const InitOptions& options, std::shared_ptr<Store> store,
    std::optional<absl::Duration> goodbye = std::nullopt);

// As run_ranks; every session is bound to its thread. `change` makes options
// those of one rank.
void run_hub_ranks(
    int n, const InitOptions& options,
    const std::function<void(Session&)>& body,
    std::shared_ptr<Store> store = nullptr,
    std::optional<absl::Duration> goodbye = std::nullopt,
    const std::function<void(int rank, InitOptions* mine)>& change = nullptr);

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_HUB_RANKS_H_
