// The jobs that run on this host, of this user: each is known by the memory
// that its ranks share (docs/watching.md), which any of them has open.
//
// Nothing is written anywhere for this, and nothing is left: /proc says who has
// such memory, and lets nobody but its user open it.
// Threads: one. Ownership: a job has its memory open.
#ifndef DISTWRAP_TOOLS_CLI_LIVE_JOBS_H_
#define DISTWRAP_TOOLS_CLI_LIVE_JOBS_H_

#include "base/descriptor.h"
#include "comm/board/live.h"

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace distwrap::cli {

struct RunningJob {
  base::Descriptor memory;
  dev_t device = 0;
  ino_t inode = 0;
  std::vector<int64_t> pids;  // that have it, rising
  comm::LiveBoard board;      // as it was found
};

// Whose memory is a board of this version.
std::vector<RunningJob> running_jobs();

// The job that `which` names: its id, a process of it, or one that has started
// such; empty: the only one. The error says what there is instead.
absl::StatusOr<RunningJob> find_job(const std::string& which);

// What a process of the job does, by its state in /proc: "runs", "stopped",
// "ended".
std::string process_state(int64_t pid);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_LIVE_JOBS_H_
