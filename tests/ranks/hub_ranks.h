// Ranks as threads over backends of this process, which need no sockets:
// "perfect" for host memory and "faux" for a second device.
#ifndef DISTWRAP_TESTS_RANKS_HUB_RANKS_H_
#define DISTWRAP_TESTS_RANKS_HUB_RANKS_H_

#include "distwrap/session.h"

#include <functional>
#include <memory>
#include <optional>

namespace distwrap::testing {

// As run_ranks; `backend` may be any backend string of these names and those
// that are linked in. Every session is bound to its thread. `goodbye`: how long
// the end of a group waits for ranks that end it at another time; unset:
// hardly, but over gloo.
void run_hub_ranks(int n, const InitOptions& options,
                   const std::function<void(Session&)>& body,
                   std::shared_ptr<Store> store = nullptr,
                   std::optional<absl::Duration> goodbye = std::nullopt);

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_HUB_RANKS_H_
