// The parameters of a session.
#ifndef DISTWRAP_SRC_GROUP_SESSION_PLAN_H_
#define DISTWRAP_SRC_GROUP_SESSION_PLAN_H_

#include "base/settings.h"
#include "comm/backend_instance.h"
#include "comm/recorder/session_recording.h"
#include "distwrap/session.h"
#include "group/tuning_file.h"
#include "plugin/allow_list.h"
#include "plugin/linked_in.h"
#include "store/rendezvous.h"

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::group {

// InitOptions after all defaults and settings are resolved.
struct SessionPlan {
  int rank = 0, world_size = 1;
  std::string backend;
  std::shared_ptr<Store> store;  // null: meet at `place`
  store::Rendezvous place = {};
  absl::Duration timeout, init_timeout;
  std::string group_name;
  comm::Hints hints = {};
  bool drop_in = false;
  GuardMode guard = GuardMode::kOff;
  // Whether ranks of a host watch each other, and after which time a rank
  // counts as silent.
  bool check = true;
  bool full_check = false;
  absl::Duration heartbeat = absl::Seconds(5);
  // After this time a waiting rank reports the missing ranks; infinite: never.
  absl::Duration straggler = absl::Seconds(30);
  // The time for which a clean end waits for peers in the close barrier.
  absl::Duration close_limit = absl::Milliseconds(400);
  int device_id = 0;
  std::optional<int> interrupt_fd = {};  // readable: the start ends
  // Whether data may travel between hosts in the clear.
  bool clear_data = true;
  // How many consecutive ranks count as on one host of their own; 0: the hosts
  // are as they are.
  int ranks_per_node = 0;
  comm::RecordingPlan recording = {};
  std::string trace_folder = {};  // empty: no trace
  TuningFile tuning = {};
  std::vector<std::string> plugin_folders;
  plugin::AllowList allowed_plugins = {};
  absl::Span<const plugin::LinkedIn> linked_in = plugin::linked_in();
};

// Explicit options come first, then the environment, then defaults.
absl::StatusOr<SessionPlan> plan_session(const InitOptions& options,
                                         const base::Environment& environment);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_SESSION_PLAN_H_
