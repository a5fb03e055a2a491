// The guard against direct calls of other communication libraries.
//
// While a session asks for it, calls of NCCL, MPI, UCX and Gloo that
// communicate are refused (docs/guard.md): such a call has no deadline and no
// place in the order of the job's calls. A preloaded library does it, the
// *door*; without one nothing is refused.
//
// Threads: any. A scope belongs to the thread that has opened it.
//
//   auto session = distwrap::init_process_group(
//       {.guard = distwrap::GuardMode::kBlock});
//   {
//     const distwrap::GuardAllow allow("a solver that uses MPI");
//     solve();
//   }
#ifndef DISTWRAP_GUARD_H_
#define DISTWRAP_GUARD_H_

#include "distwrap/export.h"

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap {

// kWarn tells of each function and calling module once and lets calls pass.
// kRequire blocks, and the session cannot start without the door.
enum class GuardMode : uint8_t { kOff, kWarn, kBlock, kRequire };

// A scope in which this thread may call other libraries. Scopes nest.
class DISTWRAP_EXPORT GuardAllow {
 public:
  explicit GuardAllow(absl::string_view reason);
  ~GuardAllow();
  GuardAllow(const GuardAllow&) = delete;
  GuardAllow& operator=(const GuardAllow&) = delete;
};

// Opens a scope as GuardAllow does, for programs that cannot use an object.
DISTWRAP_EXPORT void guard_enter(absl::string_view reason);
// Ends the thread's innermost scope. kInvalidArgument when it has none.
DISTWRAP_EXPORT absl::Status guard_leave();
// Lets modules call that are no part of an engine known to the door: those
// whose file names begin with `prefix`, such as "libsolver".
DISTWRAP_EXPORT void guard_exempt(absl::string_view prefix);

struct GuardStatus {
  GuardMode mode = GuardMode::kOff;  // decides for the process
  std::string door;                  // file of the door; empty: none is loaded
  struct Function {
    std::string library, name, instead;  // "NCCL", "ncclSend", "distwrap_send"
    uint64_t refused = 0;                // calls refused, or with kWarn told of
  };
  std::vector<Function> functions;  // all that the door guards
  std::vector<Function> refusals;   // the functions that were called
  std::vector<std::string> scopes;  // reasons of the scopes that are open
};
DISTWRAP_EXPORT GuardStatus guard_status();

}  // namespace distwrap

#endif  // DISTWRAP_GUARD_H_
