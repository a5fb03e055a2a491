// Which rank of which job this process is, told by the launcher's variables.
//
// Threads: pure function of the environment given.
//
//   auto info = detect_launch(base::Environment::of_process());
#ifndef DISTWRAP_SRC_STORE_LAUNCH_INFO_H_
#define DISTWRAP_SRC_STORE_LAUNCH_INFO_H_

#include "base/settings.h"

#include <absl/status/statusor.h>

#include <string>

namespace distwrap::store {

struct LaunchInfo {
  int rank = -1;
  int world_size = 0;
  int local_rank = -1;
  int local_world_size = 0;
  std::string launcher = {};       // "distwrap"
  std::string store_address = {};  // "" when none was given
  std::string job_id = {};         // likewise
};

// Reads the variables of `distwrap run`; other launchers get a row each here.
// Without local rank and size the job is on one host. Errors: kLaunchMissing
// with the names that are unset, kInvalidArgument with name and value.
absl::StatusOr<LaunchInfo> detect_launch(const base::Environment& environment);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_LAUNCH_INFO_H_
