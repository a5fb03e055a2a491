// Runs the program with the tensor library: the command itself does not load
// that library.
#ifndef DISTWRAP_TOOLS_CLI_TENSOR_TOOL_H_
#define DISTWRAP_TOOLS_CLI_TENSOR_TOOL_H_

#include "command_line.h"

namespace distwrap::cli {

// Replaces this process by the program with these arguments. Returns an exit
// code only when that fails, after a message that begins with `command`.
int run_tensor_tool(const char* command, const Words& words);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_TENSOR_TOOL_H_
