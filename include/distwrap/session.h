// One rank's membership of a job.
//
// Threads: any method from any thread. A process may hold several sessions, so
// ranks can be threads.
// Ownership: a counted handle. Dropping the last handle of a session that was
// not closed aborts the session.
//
//   auto session = distwrap::Session::create({.rank = 0, .world_size = 1});
//   session->world().size();  // 1
//   session->close();
#ifndef DISTWRAP_SESSION_H_
#define DISTWRAP_SESSION_H_

#include "distwrap/export.h"
#include "distwrap/group.h"
#include "distwrap/group_registry.h"
#include "distwrap/guard.h"
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

// The checks that the ranks of one host make of each other's calls. kSignature
// compares kind, dtype, count, reduction, root and order of a group's
// collectives and watches that the other ranks still run. A difference is one
// kCallMismatch on all ranks. kFull also compares, before data move, what the
// ranks of each exchange of experts say of it (MoeOptions::validate).
enum class Check { kOff, kSignature, kFull };

// The options of a session. Explicit values win; unset values come from the
// environment of the launcher: `distwrap run`, torchrun, Open MPI, PMI, PMIx or
// Slurm.
struct InitOptions {
  // Backend of the world group: a name ("gloo", "loopback", "auto"), a name for
  // each device ("cpu:gloo,cuda:nccl"), or the full path of a plugin. For host
  // memory "auto" means loopback for one rank, shm for up to 128 ranks of one
  // host, gloo for more ranks of one host, and between hosts ucx where UCX is
  // installed, else gloo.
  std::string backend = {};
  int rank = -1;
  int world_size = -1;
  // The store through which ranks meet. With neither `store` nor `init_method`
  // the launcher decides, and one rank needs no store. With both:
  // kStoreConflict.
  std::shared_ptr<Store> store = nullptr;
  // "env://", "tcp://host:port", "file:///path" (with "?rank=0&world_size=2"
  // where wanted), or "unix:/path". The process of rank 0 serves a socket at
  // /path, or else in a folder that only this user can enter, under a name
  // derived from the text; no file is written. Ranks of other hosts reach it at
  // host:port, which is opened only with the job's key (docs/hosts.md).
  std::string init_method = {};
  // The time limit of every operation; unset: DISTWRAP_TIMEOUT, 600 s.
  std::optional<absl::Duration> timeout = std::nullopt;
  // The time limit of start-up; unset: DISTWRAP_INIT_TIMEOUT, 600 s.
  std::optional<absl::Duration> init_timeout = std::nullopt;
  // The description of the world group.
  std::string group_name = "world";
  // The index of the device that this rank uses, for backends of memory other
  // than the host's; unset: the rank's number on its host if the launcher tells
  // the ranks, else 0.
  std::optional<int> device_id = std::nullopt;
  // So many consecutive ranks count as on one host, whatever hosts they are on:
  // a test of several hosts on one machine. Equal on all ranks. Unset: ranks
  // that can share memory are on one host.
  std::optional<int> ranks_per_node = std::nullopt;
  // True makes calls as strict as the wrappers of torch.distributed: a backend
  // must be named, new_group is refused, and a rank outside every list of a
  // split is an error. Unset: DISTWRAP_DROP_IN, false.
  std::optional<bool> drop_in = std::nullopt;
  // Whether ranks compare their calls; unset: DISTWRAP_CHECK, kSignature.
  std::optional<Check> check = std::nullopt;
  // After this time a rank that waits in a collective reports the missing
  // ranks, on stderr and to hooks (docs/watching.md). InfiniteDuration: never.
  // Unset: DISTWRAP_STRAGGLER, 30 s.
  std::optional<absl::Duration> straggler = std::nullopt;
  // Whether calls of other communication libraries are refused while the
  // session lives (guard.h); unset: DISTWRAP_GUARD, kOff.
  std::optional<GuardMode> guard = std::nullopt;
  // A descriptor that ends the start when it becomes readable, with kAborted,
  // such as one that a signal handler writes to. The descriptor stays the
  // caller's. Unset: only time limits end the start.
  std::optional<int> interrupt_fd = std::nullopt;
  // Options for backends; each backend gets the keys that it knows. A key that
  // no backend knows is refused.
  std::map<std::string, std::string> hints = {};
};

class DISTWRAP_EXPORT Session {
 public:
  // A handle of no session.
  Session() = default;
  explicit Session(std::shared_ptr<group::SessionState> state)
      : state_(std::move(state)) {}

  // Joins the job and creates the world group; collective. A failure undoes
  // everything. Errors: kLaunchMissing, kLauncherConflict, kStoreConflict,
  // kStoreUnreachable, kRunDirectory, kRefused (another process has the rank,
  // or the other ranks gave up), kCallMismatch, kBackendUnknown,
  // kPluginNotFound, kPluginRefused, kDirectCall (GuardMode::kRequire without
  // the door), kTimedOut with the missing ranks, kAborted (interrupt_fd).
  static absl::StatusOr<Session> create(const InitOptions& options = {});

  explicit operator bool() const { return state_ != nullptr; }
  friend bool operator==(const Session&, const Session&) = default;

  int rank() const;
  int world_size() const;
  Group world() const;
  // The store through which the ranks met, for a program's own words; null for
  // a handle of no session. It serves until rank 0 closes the session. Keys
  // begin with a prefix of the program, which no other part of it uses.
  std::shared_ptr<Store> store() const;
  // Valid as long as the session.
  GroupRegistry& registry() const;

  // Writes the last operations of this rank, at most 2,048, to a JSON file that
  // only this user can read, and returns its path. Works while other calls run
  // or hang. `distwrap info --recorder` reads a folder with the files of all
  // ranks. The signal DISTWRAP_RECORDER_SIGNAL and a group that breaks write
  // the file as well. Errors: kRunDirectory; kUnsupported when
  // DISTWRAP_RECORDER is off; kNotInitialized.
  absl::StatusOr<std::string> save_recording() const;

  // Closes the session. Operations in flight may finish until the timeout; the
  // rest is aborted. Without operations in flight it takes 500 ms at most.
  // kCallMismatch when ranks made different calls and no call of this rank has
  // reported it; kTimedOut when a backend cannot end its part yet, as NCCL
  // while a captured graph is left. The session is closed nevertheless. A
  // second call does nothing.
  absl::Status close(absl::Duration timeout = absl::Seconds(30)) const;

  const std::shared_ptr<group::SessionState>& state() const { return state_; }

 private:
  std::shared_ptr<group::SessionState> state_;
};

}  // namespace distwrap

#endif  // DISTWRAP_SESSION_H_
