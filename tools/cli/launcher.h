// Starts the ranks of a job on this host, perhaps together with other hosts,
// and waits for their end.
//
// Threads: one call at a time in a process, from any thread. A call takes over
// the process's signals while it runs.
//
//   auto code = launch({.ranks = 4, .argv = {"./train"}});
//   return code.ok() ? *code : 1;
#ifndef DISTWRAP_TOOLS_CLI_LAUNCHER_H_
#define DISTWRAP_TOOLS_CLI_LAUNCHER_H_

#include "store/network_address.h"

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <map>
#include <string>
#include <vector>

namespace distwrap::cli {

// Exit codes for a program that cannot be started, as shells use them.
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

struct LaunchOptions {
  enum Output {
    kPassThrough,  // ranks write to this process's stdout and stderr
    kPrefix,       // prefixes each line with "[rank] "
    kFiles,        // to output_dir/rank-<rank>.out and .err
  };

  int ranks = 1;
  std::vector<std::string> argv = {};           // program, arguments
  std::map<std::string, std::string> env = {};  // added to the process's
                                                // environment
  bool pin = false;                             // rank i on core i
  Output output = kPassThrough;
  std::string output_dir = {};
  // The time that other ranks get to end by themselves after a rank failed.
  absl::Duration grace = absl::Seconds(5);
  // With more nodes than one, node 0 serves the job's store at `meeting`, which
  // asks for the job's key, and the other nodes join there.
  int nodes = 1, node = 0;
  store::HostPort meeting = {};
};

// Serves the store of the job, starts the ranks and forwards signals. When a
// rank fails, it prints which rank and how, and ends the other ranks: by
// SIGTERM after the grace period, by SIGKILL 2 s later. Neither a process of
// the ranks' process groups nor a run directory remains.
//
// Returns 0 when every rank did; otherwise the code of the first rank that
// failed, or 128 + signal if it was killed; 1 when only another node failed;
// kNotFound or kNotExecutable, with a message on stderr. Errors:
// kInvalidArgument, kRunDirectory, kResourceLimit; with several nodes also
// those of Nodes and JobKey.
absl::StatusOr<int> launch(const LaunchOptions& options);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_LAUNCHER_H_
