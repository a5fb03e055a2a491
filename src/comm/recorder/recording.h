// A Recorder's contents as a file.
//
// JSON, one object, of this version:
//   {"format": "distwrap recording", "version": 1, "library": "0.1.0",
//    "job": "...", "rank": 0, "world_size": 4, "host": "...", "pid": 1,
//    "cause": "signal", "time_ns": ..., "overwritten": 0,
//    "groups": [{"group": 0, "uid": "0f..", "name": "world", "backend": "gloo",
//                "rank": 0, "size": 4, "ranks": [0, 1, 2, 3]}],
//    "operations": [{"number": 1, "group": 0, "op": "all_reduce", "seq": 1,
//      "dtype": "f32", "reduce": "sum", "in": 256, "out": 256, "label": "...",
//      "submitted_ns": ..., "started_ns": ..., "ended_ns": ...,
//      "state": "done"}]}
// Operations are listed by their numbers, which rise within a group; between
// groups the times tell the order. "overwritten" counts numbers that are gone.
// Times are of the host's clock, since 1970. "in" and "out" count elements of
// this rank's buffers. "group" is -1 for one that ended long ago. Members that
// do not apply are left out. "state" is queued, running, done, or the reason of
// a failure. "ranks" are those of the world, the first 64. Threads: any;
// `write_recording` and `Recording::save` are safe in a signal handler.
#ifndef DISTWRAP_SRC_COMM_RECORDER_RECORDING_H_
#define DISTWRAP_SRC_COMM_RECORDER_RECORDING_H_

#include "comm/recorder/recorder.h"

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <array>
#include <string>

namespace distwrap::comm {

// The rank that recorded.
struct RecordedRank {
  std::string job, host;
  int rank = 0, world_size = 1;
};

// False with errno when it cannot be written.
bool write_recording(const Recorder& recorder, const RecordedRank& who,
                     absl::string_view cause, int fd);

// Writes a recorder's recordings to one file, each in place of the one before.
class Recording {
 public:
  // Saves to "<folder>/rank-<rank>.json"; the recorder outlives this object.
  // With a `parent` the folder lies in it, and has to belong to this user
  // alone.
  Recording(const Recorder& recorder, RecordedRank who,
            const std::string& folder, const std::string& parent = {});

  // Saves the recording; makes missing folders, for this user only. The file
  // has mode 0600 and is written under another name and renamed, so no reader
  // sees half of it. False with errno.
  bool save(absl::string_view cause) const;

  const std::string& path() const { return path_; }
  const std::string& folder() const { return folder_; }
  const Recorder& recorder() const { return recorder_; }
  const RecordedRank& who() const { return who_; }

 private:
  const Recorder& recorder_;
  const RecordedRank who_;
  const std::string parent_, folder_, path_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_RECORDER_RECORDING_H_
