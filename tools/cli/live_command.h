// `distwrap info --live`: a running job, again and again.
//
// Threads: one.
#ifndef DISTWRAP_TOOLS_CLI_LIVE_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_LIVE_COMMAND_H_

#include <string>

namespace distwrap::cli {

struct LiveWish {
  std::string job;  // empty: the only one
  bool json = false;
  bool once = false;  // also where there is a terminal
};

// Until the job has ended, or once. The command's exit code.
int live_command(const LiveWish& wish);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_LIVE_COMMAND_H_
