// Whether a debugger holds a process. Such a process may stand still for as
// long as somebody looks at it, so no silence counts against it.
//
// Threads: any.
#ifndef DISTWRAP_SRC_BASE_DEBUGGER_H_
#define DISTWRAP_SRC_BASE_DEBUGGER_H_

#include <sys/types.h>

namespace distwrap::base {

// Whether another process traces this one (ptrace(2)). False when the process
// has ended or cannot be looked at. Throws std::bad_alloc.
bool is_traced(pid_t pid);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_DEBUGGER_H_
