// The running jobs of this user on this host. A job is recognised by the memory
// that its ranks share (docs/watching.md), which every rank has open.
//
// Jobs write nothing for this purpose, and nothing remains: /proc lists the
// processes with such memory, and only their user can open it.
// Threads: one. Ownership: a job keeps its memory open.
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
  std::vector<int64_t> pids;  // processes that have it open, ascending
  comm::LiveBoard board;      // the state when it was read
  // Memory in which these processes keep what ranks of other hosts have told.
  std::vector<base::Descriptor> told = {};
};

// The present state, with that of ranks of other hosts as far as they have
// told.
absl::StatusOr<comm::LiveBoard> read_board(const RunningJob& job);

// The jobs whose memory is a board of this version.
std::vector<RunningJob> running_jobs();

// The job that `which` names by its id, one of its processes, or an ancestor of
// one; empty: the only job. The error lists the jobs that exist.
absl::StatusOr<RunningJob> find_job(const std::string& which);

// The state of a process of the job, from /proc: "runs", "stopped" or "ended".
std::string process_state(int64_t pid);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_LIVE_JOBS_H_
