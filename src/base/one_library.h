// Refuses to work beside another version of this library. Two copies in one
// process have a registry, threads and handles each, and a program that uses
// both by accident gets "no such handle" at best.
#ifndef DISTWRAP_SRC_BASE_ONE_LIBRARY_H_
#define DISTWRAP_SRC_BASE_ONE_LIBRARY_H_

#include <absl/status/status.h>

namespace distwrap::base {

// kUnsupported with both files when the process has loaded a shared library
// that exports `distwrap_version` and says another version than this one.
absl::Status check_one_library();

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_ONE_LIBRARY_H_
