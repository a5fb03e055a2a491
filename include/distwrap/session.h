// One rank's membership of a job.
//
// Threads: any method from any thread. Several sessions may live in a process:
// ranks can be threads.
// Ownership: a counted handle. Dropping the last handle of a session that was
// not closed aborts it.
//
//   auto session = distwrap::Session::create({.rank = 0, .world_size = 1});
//   session->world().size();  // 1
//   session->close();
#ifndef DISTWRAP_SESSION_H_
#define DISTWRAP_SESSION_H_

#include "distwrap/export.h"
#include "distwrap/group.h"
#include "distwrap/store.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace distwrap {

namespace group {
class SessionState;
}

// Explicit values win; what is unset comes from the launcher's environment
// (DISTWRAP_RANK, DISTWRAP_WORLD_SIZE, DISTWRAP_STORE ...).
struct InitOptions {
  // Backend of the world group: a name ("gloo", "loopback", "auto") or the full
  // path of a plugin. "auto": loopback for one rank, gloo for more.
  std::string backend = {};
  int rank = -1;
  int world_size = -1;
  // How ranks meet; unset: the launcher's address, and for one rank none.
  std::shared_ptr<Store> store = nullptr;
  // Of every operation; unset: DISTWRAP_TIMEOUT, 600 s.
  std::optional<absl::Duration> timeout = std::nullopt;
  // Of start-up; unset: DISTWRAP_INIT_TIMEOUT, 600 s.
  std::optional<absl::Duration> init_timeout = std::nullopt;
  std::string group_name = "world";
  // Handed to the backend; a key that it does not know is refused.
  std::map<std::string, std::string> hints = {};
};

class DISTWRAP_EXPORT Session {
 public:
  // No session.
  Session() = default;
  explicit Session(std::shared_ptr<group::SessionState> state)
      : state_(std::move(state)) {}

  // Joins the job and makes the world group; collective. Whatever fails, all is
  // undone. Errors: kLaunchMissing, kStoreUnreachable, kBackendUnknown,
  // kPluginNotFound, kPluginRefused, kTimedOut naming the missing ranks.
  static absl::StatusOr<Session> create(const InitOptions& options = {});

  explicit operator bool() const { return state_ != nullptr; }
  friend bool operator==(const Session&, const Session&) = default;

  int rank() const;
  int world_size() const;
  Group world() const;

  // Drains until the timeout, then aborts what is left; without work in flight
  // it takes 500 ms at most. A second call does nothing.
  absl::Status close(absl::Duration timeout = absl::Seconds(30)) const;

  const std::shared_ptr<group::SessionState>& state() const { return state_; }

 private:
  std::shared_ptr<group::SessionState> state_;
};

}  // namespace distwrap

#endif  // DISTWRAP_SESSION_H_
