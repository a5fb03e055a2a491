// `distwrap info --live`: shows a running job repeatedly.
//
// Threads: one.
#ifndef DISTWRAP_TOOLS_CLI_LIVE_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_LIVE_COMMAND_H_

#include <string>

namespace distwrap::cli {

struct LiveWish {
  std::string job;  // empty: the only one
  bool json = false;
  bool once = false;  // print once, even to a terminal
};

// Runs until the job has ended, or once. Returns the exit code.
int live_command(const LiveWish& wish);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_LIVE_COMMAND_H_
