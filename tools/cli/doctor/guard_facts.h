// The processes of running jobs, as the guard's door finds them.
#ifndef DISTWRAP_TOOLS_CLI_DOCTOR_GUARD_FACTS_H_
#define DISTWRAP_TOOLS_CLI_DOCTOR_GUARD_FACTS_H_

#include "doctor/host_facts.h"

#include <string>

namespace distwrap::cli {

GuardFacts guard_facts();

// One process, from /proc: whether it has mapped a door, and why the loader
// preloads nothing for it.
GuardFacts::Process guarded_process(int64_t pid);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_DOCTOR_GUARD_FACTS_H_
