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
#include "distwrap/group_registry.h"
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

// What ranks of one host compare. kSignature: kind, dtype, count, reduction,
// root and order of a group's collectives, and whether the others still run; a
// difference is the same kCallMismatch on all ranks.
enum class Check { kOff, kSignature };

// Explicit values win; what is unset comes from the launcher's environment:
// that of `distwrap run`, torchrun, Open MPI, PMI, PMIx or Slurm.
struct InitOptions {
  // Backend of the world group: a name ("gloo", "loopback", "auto"), one for
  // each device ("cpu:gloo,cuda:nccl"), or the full path of a plugin. "auto"
  // for host memory: loopback for one rank, gloo for more.
  std::string backend = {};
  int rank = -1;
  int world_size = -1;
  // How ranks meet; neither: as the launcher says, and for one rank not at all.
  // Not both: kStoreConflict.
  std::shared_ptr<Store> store = nullptr;
  // "env://", "tcp://host:port", "file:///path" (with "?rank=0&world_size=2"
  // where wanted), "unix:/path". The ranks are on one host: no port is opened
  // and no file written; rank 0's process serves a socket in a folder that only
  // this user can enter, named after the text, or at /path.
  std::string init_method = {};
  // Of every operation; unset: DISTWRAP_TIMEOUT, 600 s.
  std::optional<absl::Duration> timeout = std::nullopt;
  // Of start-up; unset: DISTWRAP_INIT_TIMEOUT, 600 s.
  std::optional<absl::Duration> init_timeout = std::nullopt;
  // Description of the world group.
  std::string group_name = "world";
  // Index of the device that this rank uses, for backends of other memory than
  // the host's; unset: 0.
  std::optional<int> device_id = std::nullopt;
  // Strict where torch.distributed's own wrappers are: a backend must be named,
  // new_group is refused, a rank outside every list of a split is an error.
  // Unset: DISTWRAP_DROP_IN, no.
  std::optional<bool> drop_in = std::nullopt;
  // Unset: DISTWRAP_CHECK, kSignature.
  std::optional<Check> check = std::nullopt;
  // After this a rank that waits in a collective says who is missing, on stderr
  // and to hooks (docs/watching.md); InfiniteDuration: never. Unset:
  // DISTWRAP_STRAGGLER, 30 s.
  std::optional<absl::Duration> straggler = std::nullopt;
  // Handed to the backends, to each what it knows; a key that none of them
  // knows is refused.
  std::map<std::string, std::string> hints = {};
};

class DISTWRAP_EXPORT Session {
 public:
  // No session.
  Session() = default;
  explicit Session(std::shared_ptr<group::SessionState> state)
      : state_(std::move(state)) {}

  // Joins the job and makes the world group; collective. Whatever fails, all is
  // undone. Errors: kLaunchMissing, kLauncherConflict, kStoreConflict,
  // kStoreUnreachable, kRunDirectory, kRefused (another process has the rank,
  // or the others gave up), kCallMismatch, kBackendUnknown, kPluginNotFound,
  // kPluginRefused, kTimedOut naming the missing ranks.
  static absl::StatusOr<Session> create(const InitOptions& options = {});

  explicit operator bool() const { return state_ != nullptr; }
  friend bool operator==(const Session&, const Session&) = default;

  int rank() const;
  int world_size() const;
  Group world() const;
  // Lives as long as the session.
  GroupRegistry& registry() const;

  // Writes down the last operations of this rank, 2,048 at most, also while
  // others run or hang, and returns the path of the file: JSON, for this user
  // only. `distwrap info --recorder` reads the folder in which those of all
  // ranks lie. The same happens at DISTWRAP_RECORDER_SIGNAL and when a group
  // breaks. Errors: kRunDirectory; kUnsupported when DISTWRAP_RECORDER is off;
  // kNotInitialized.
  absl::StatusOr<std::string> save_recording() const;

  // Drains until the timeout, then aborts what is left; without work in flight
  // it takes 500 ms at most. kCallMismatch when ranks have called different
  // operations and no call has told this one: closed all the same. A second
  // call does nothing.
  absl::Status close(absl::Duration timeout = absl::Seconds(30)) const;

  const std::shared_ptr<group::SessionState>& state() const { return state_; }

 private:
  std::shared_ptr<group::SessionState> state_;
};

}  // namespace distwrap

#endif  // DISTWRAP_SESSION_H_
