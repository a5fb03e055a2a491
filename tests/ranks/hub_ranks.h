// Ranks as threads over backends of this process without sockets: "perfect" for
// host memory, "faux" for a second device, "streams" for one with streams,
// "messages", which has only messages, so that everything else is composed, and
// "gaps" for a second device, which has few operations and element types.
#ifndef DISTWRAP_TESTS_RANKS_HUB_RANKS_H_
#define DISTWRAP_TESTS_RANKS_HUB_RANKS_H_

#include "distwrap/session.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

namespace distwrap::testing {

// While it lives, these bytes count as memory of the device of "gaps".
class DeviceRange {
 public:
  DeviceRange(const void* data, size_t bytes);
  ~DeviceRange();
  DeviceRange(const DeviceRange&) = delete;
  DeviceRange& operator=(const DeviceRange&) = delete;

 private:
  const char* const data_;
};

// A session of one of `n` ranks that meet in `store`. Its backend string may
// use these names and those of linked-in backends. `close_limit`: how long
// the end of a group waits for ranks that end it later; unset: very short,
// except over gloo.
absl::StatusOr<Session> hub_session(
    int rank, int n, const InitOptions& options, std::shared_ptr<Store> store,
    std::optional<absl::Duration> close_limit = std::nullopt);

// Runs as run_ranks does; every session is bound to its thread. `change`
// changes the options of one rank.
void run_hub_ranks(
    int n, const InitOptions& options,
    const std::function<void(Session&)>& body,
    std::shared_ptr<Store> store = nullptr,
    std::optional<absl::Duration> close_limit = std::nullopt,
    const std::function<void(int rank, InitOptions* mine)>& change = nullptr);

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_RANKS_HUB_RANKS_H_
