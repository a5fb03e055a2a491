#include "live_command.h"

#include "bench/json.h"
#include "command_line.h"
#include "distwrap/deadline.h"
#include "live/jobs.h"
#include "live/view.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace distwrap::cli {
namespace {

constexpr absl::Duration kRefresh = absl::Seconds(1);
// Moves to the upper left corner and clears everything below.
constexpr char kClear[] = "\033[H\033[J";

bool print(const std::string& text) {
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

}  // namespace

int live_command(const LiveWish& wish) {
  const absl::StatusOr<RunningJob> job = find_job(wish.job);
  if (!job.ok()) {
    std::fprintf(stderr, "distwrap info: %s\n",
                 std::string(job.status().message()).c_str());
    return kFailed;
  }
  // Processes in other PID namespaces have other numbers here.
  const auto state_of = [&](int64_t pid) -> std::string {
    return std::binary_search(job->pids.begin(), job->pids.end(), pid)
               ? process_state(pid)
               : "runs";
  };
  const bool once = wish.once || isatty(STDOUT_FILENO) == 0;
  for (;;) {
    const absl::StatusOr<comm::LiveBoard> read = read_board(*job);
    if (!read.ok()) {
      std::fprintf(stderr, "distwrap info: %s\n",
                   std::string(read.status().message()).c_str());
      return kFailed;
    }
    const comm::LiveBoard& board = *read;
    if (wish.json)
      return print(
                 bench::json_text(to_json(board, Deadline::now_ns(), state_of)))
                 ? 0
                 : kFailed;
    const std::string text = to_text(board, Deadline::now_ns(), state_of);
    if (!print(once ? text : kClear + text)) return kFailed;
    if (once || has_ended(board)) return 0;
    absl::SleepFor(kRefresh);
  }
}

}  // namespace distwrap::cli
