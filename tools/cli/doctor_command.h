// `distwrap doctor`: what is wrong with this host for a job, and how to mend
// it.
#ifndef DISTWRAP_TOOLS_CLI_DOCTOR_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_DOCTOR_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// The exit code: 0 when jobs run here, warnings or not; 1 when something
// fails; 2 when the options are bad.
int doctor_command(const Words& words);
CommandText doctor_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_DOCTOR_COMMAND_H_
