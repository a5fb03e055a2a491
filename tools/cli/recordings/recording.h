// The recording of a rank, as read from its file.
//
// Source: src/comm/recorder/recording.h describes the format.
// Threads: values and pure functions.
#ifndef DISTWRAP_TOOLS_CLI_RECORDINGS_RECORDING_H_
#define DISTWRAP_TOOLS_CLI_RECORDINGS_RECORDING_H_

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::cli {

struct RecordedOp {
  int64_t number = 0, group = 0;
  std::string op, dtype, reduce, label, state;
  int64_t seq = 0;          // number of a collective; 0: a message
  int64_t tag = 0;          // tag of a message
  int64_t peer = -1;        // peer or root; -1: none
  int64_t in = 0, out = 0;  // elements
  bool async = false;
  int64_t submitted_ns = 0, started_ns = 0, ended_ns = 0;  // 0: not yet

  bool has_ended() const { return ended_ns != 0; }
  bool failed() const { return has_ended() && state != "done"; }
};

struct RecordedMember {
  int64_t group = 0;  // number by which operations refer to it
  std::string uid, name, backend;
  int64_t rank = 0, size = 0;
  std::vector<int64_t> ranks;  // ranks of the world
};

struct RankRecording {
  std::string path, job, host, cause;
  int64_t rank = 0, world_size = 0, pid = 0, time_ns = 0, overwritten = 0;
  std::vector<RecordedMember> groups;
  std::vector<RecordedOp> operations;  // in the order of submission
};

// The error describes text that is no recording.
absl::StatusOr<RankRecording> parse_recording(absl::string_view text);

// The newest job in a folder, by rank.
struct JobRecording {
  std::vector<RankRecording> ranks;
  // Files that were left out, with the reasons.
  std::vector<std::string> left_out;
};

// kNotFound when the folder has no readable recording.
absl::StatusOr<JobRecording> read_recordings(const std::string& folder);

}  // namespace distwrap::cli

#endif  // DISTWRAP_TOOLS_CLI_RECORDINGS_RECORDING_H_
