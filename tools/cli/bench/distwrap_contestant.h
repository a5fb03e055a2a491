// A backend as programs use it: through a Session of its own.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_DISTWRAP_CONTESTANT_H_
#define DISTWRAP_TOOLS_CLI_BENCH_DISTWRAP_CONTESTANT_H_

#include "bench/contestant.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <memory>

namespace distwrap::bench {

// Collective. `backend` is a name or the full path of a plugin.
absl::StatusOr<std::unique_ptr<Contestant>> make_distwrap_contestant(
    absl::string_view backend, const Setup& setup);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_DISTWRAP_CONTESTANT_H_
