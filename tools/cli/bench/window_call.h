// The operations on windows, through distwrap.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_WINDOW_CALL_H_
#define DISTWRAP_TOOLS_CLI_BENCH_WINDOW_CALL_H_

#include "bench/case.h"
#include "bench/contestant.h"
#include "distwrap/group.h"

#include <absl/status/statusor.h>

#include <memory>

namespace distwrap::bench {

// Collective; so is the call's end. Null without another rank. The library
// allocates the window's memory.
absl::StatusOr<std::unique_ptr<TimedCall>> make_window_call(Case& c,
                                                            const Group& group);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_WINDOW_CALL_H_
