// Which rank of which job this process is, told by the launcher's variables.
//
// Threads: pure functions of the environment given.
//
//   auto info = detect_launch(base::Environment::of_process());
//   if (info.ok()) use(info->rank, info->world_size);
#ifndef DISTWRAP_SRC_STORE_LAUNCH_INFO_H_
#define DISTWRAP_SRC_STORE_LAUNCH_INFO_H_

#include "base/settings.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <string>
#include <vector>

namespace distwrap::store {

enum class Launcher {
#define DW_LAUNCHER(name, enumerator, title, rank, size, local_rank, \
                    local_size, node, nodes, restarts, job)          \
  enumerator,
#include "store/launchers.def"
};

// One row of the table; "" for a variable that the launcher does not set.
struct LauncherRow {
  Launcher launcher;
  absl::string_view name;   // value of DISTWRAP_LAUNCHER
  absl::string_view title;  // for people
  absl::string_view rank, size, local_rank, local_size, node, nodes, restarts;
  absl::string_view job;  // lists of variables, see the table
};
// Innermost first.
absl::Span<const LauncherRow> all_launchers();

struct LaunchInfo {
  int rank = -1;
  int world_size = 0;
  int local_rank = -1;       // -1: not told
  int local_world_size = 0;  // 0: not told
  int node_rank = -1;        // likewise
  int node_count = 0;
  int restarts = 0;
  std::string launcher = {};        // "own", "torchrun"
  std::string launcher_title = {};  // "distwrap run", "torchrun"
  std::string store_address = {};   // "" when none was given
  std::string job_id = {};          // "" when the launcher tells none

  std::string no_job_id = {};  // why, where it was asked for and refused

  // Where each of the values above came from, for people.
  struct Fact {
    std::string name, value, origin;  // "rank", "3", "OMPI_COMM_WORLD_RANK"
  };
  std::vector<Fact> facts = {};

  // Other launchers whose variables are complete, but are not used.
  struct Ignored {
    std::string launcher, launcher_title;
    int rank = -1, world_size = 0;
    // That it started the node's launcher rather than the ranks.
    bool describes_node = false;
  };
  std::vector<Ignored> ignored = {};

  bool has_several_hosts() const;
};

// What a caller wants to be told; what it knows already need not be set.
struct LaunchNeeds {
  bool rank = true, world_size = true;
};

// Reads the variables of all launchers of the table, and is the only one to.
// The values of one launcher are never mixed with another's. Errors:
// kLaunchMissing with all names and the pairs that are half set,
// kLauncherConflict with both, kInvalidArgument with name and value.
absl::StatusOr<LaunchInfo> detect_launch(const base::Environment& environment,
                                         const LaunchNeeds& needs = {});

// "host:port" of MASTER_ADDR and MASTER_PORT; "" without a port.
std::string master_address(const base::Environment& environment);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_LAUNCH_INFO_H_
