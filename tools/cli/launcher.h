// Starts the ranks of a job on this host and sees them to their end.
//
// Threads: one call at a time in a process, from any thread: it takes the
// process's signals while it runs.
//
//   auto code = launch({.ranks = 4, .argv = {"./train"}});
//   return code.ok() ? *code : 1;
#ifndef DISTWRAP_TOOLS_CLI_LAUNCHER_H_
#define DISTWRAP_TOOLS_CLI_LAUNCHER_H_

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <map>
#include <string>
#include <vector>

namespace distwrap::cli {

// Exit codes for a program that cannot be started, as shells have them.
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

struct LaunchOptions {
  enum Output {
    kPassThrough,  // ranks write to this process's stdout and stderr
    kPrefix,       // likewise, line by line, with "[rank] " before each
    kFiles,        // to output_dir/rank-<rank>.out and .err
  };

  int ranks = 1;
  std::vector<std::string> argv = {};           // program, arguments
  std::map<std::string, std::string> env = {};  // on top of the process's
  bool pin = false;                             // rank i on core i
  Output output = kPassThrough;
  std::string output_dir = {};
  // What the others get to end by themselves once one rank failed.
  absl::Duration grace = absl::Seconds(5);
};

// Serves the store of the job, starts the ranks, forwards signals; when a rank
// fails, says which and how, and ends the others: after the grace period by
// SIGTERM, 2 s later by SIGKILL. Nothing is left behind: no process of the
// ranks' process groups, no run directory.
// Returns 0 when every rank did, else the code of the first that failed, 128 +
// signal for one that was killed; kNotFound or kNotExecutable, said on stderr.
// Errors: kInvalidArgument, kRunDirectory, kResourceLimit.
absl::StatusOr<int> launch(const LaunchOptions& options);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_LAUNCHER_H_
