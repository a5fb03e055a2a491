// The inputs of `distwrap bench replay`: recordings of distwrap and traces of
// PARAM.
//
// Threads: pure functions, except those that read files.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_REPLAY_READ_H_
#define DISTWRAP_TOOLS_CLI_BENCH_REPLAY_READ_H_

#include "bench/replay/script.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace distwrap::cli {
struct JobRecording;
}

namespace distwrap::bench {

// Reads a folder of recordings (docs/recording.md) or of PARAM traces, one for
// each rank ("rank0.json", "0.json"); or a file: a PARAM trace that all ranks
// share, or the recording of a job of one rank. The result is linked.
absl::StatusOr<ReplayScript> read_replay(const std::string& path);

// Makes a script of all ranks' recordings. Operations that have not ended are
// left out.
absl::StatusOr<ReplayScript> script_of(const cli::JobRecording& job);

// Makes a script of one text for each rank, or of one text for `ranks` ranks
// (0: as many as its "world_size" says). The texts are comms traces that
// PARAM's commsTraceReplay calls "basic": a JSON array of objects. The result
// is not linked.
// Source: facebookresearch/param, train/comms/pt/commsTraceParser.py.
absl::StatusOr<ReplayScript> script_of_param(
    const std::vector<std::string>& texts);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_REPLAY_READ_H_
