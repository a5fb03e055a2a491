// `distwrap doctor`: finds the faults of this host that affect a job, with
// their remedies.
#ifndef DISTWRAP_TOOLS_CLI_DOCTOR_COMMAND_H_
#define DISTWRAP_TOOLS_CLI_DOCTOR_COMMAND_H_

#include "command_line.h"

namespace distwrap::cli {

// Returns the exit code: 0 when jobs can run here, also with warnings; 1 when a
// check fails; 2 for bad options.
int doctor_command(const Words& words);
CommandText doctor_text();

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_DOCTOR_COMMAND_H_
