// The rank of this process and its job, according to the launcher's variables.
//
// Threads: pure functions of the given environment.
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

// One row of the table; "" marks a variable that the launcher does not set.
struct LauncherRow {
  Launcher launcher;
  absl::string_view name;   // value of DISTWRAP_LAUNCHER
  absl::string_view title;  // the name in messages
  absl::string_view rank, size, local_rank, local_size, node, nodes, restarts;
  absl::string_view job;  // lists of variables; launchers.def explains them
};
// All rows, the innermost launcher first.
absl::Span<const LauncherRow> all_launchers();

struct LaunchInfo {
  int rank = -1;
  int world_size = 0;
  int local_rank = -1;       // -1: not known
  int local_world_size = 0;  // 0: not known
  int node_rank = -1;        // -1: not known
  int node_count = 0;
  int restarts = 0;
  std::string launcher = {};        // "own", "torchrun"
  std::string launcher_title = {};  // "distwrap run", "torchrun"
  std::string store_address = {};   // "" when none was given
  std::string job_id = {};          // "" when the launcher gives none

  std::string no_job_id = {};  // the reason why a requested job id is missing

  // The origin of each value above, for people.
  struct Fact {
    std::string name, value, origin;  // "rank", "3", "OMPI_COMM_WORLD_RANK"
  };
  std::vector<Fact> facts = {};

  // Launchers with complete variables that are not used.
  struct Ignored {
    std::string launcher, launcher_title;
    int rank = -1, world_size = 0;
    // true: it started the node's launcher, not the ranks
    bool describes_node = false;
  };
  std::vector<Ignored> ignored = {};

  bool has_several_hosts() const;
};

// The facts that a caller needs; facts that the caller knows already may be
// missing.
struct LaunchNeeds {
  bool rank = true, world_size = true;
};

// Reads the variables of all launchers of the table; no other code does. Values
// of different launchers are never mixed. Errors: kLaunchMissing with all
// variable names and the half-set pairs, kLauncherConflict with both launchers,
// kInvalidArgument with name and value.
absl::StatusOr<LaunchInfo> detect_launch(const base::Environment& environment,
                                         const LaunchNeeds& needs = {});

// MASTER_ADDR and MASTER_PORT as "host:port"; "" without a port.
std::string master_address(const base::Environment& environment);

}  // namespace distwrap::store

#endif  // DISTWRAP_SRC_STORE_LAUNCH_INFO_H_
