// A session's recorder with the file that it is saved to: on demand, at a
// signal, and when a group breaks.
//
// Threads: any. Ownership: shared by the session and its communicators, which
// may outlive it.
#ifndef DISTWRAP_SRC_COMM_RECORDER_SESSION_RECORDING_H_
#define DISTWRAP_SRC_COMM_RECORDER_SESSION_RECORDING_H_

#include "comm/recorder/recorder.h"
#include "comm/recorder/recording.h"
#include "comm/recorder/recording_signal.h"

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace distwrap::comm {

// Where a session's recordings go.
struct RecordingPlan {
  bool on = true;
  std::string folder;  // as it is
  // When there is no `folder`: in it "recording-<job>", of which the newest
  // stay. Empty: nothing can be saved.
  std::string parent;
  int signal = 0;  // 0: none
};

class SessionRecording {
 public:
  // Null when recording is off, or there is no memory for it.
  static std::shared_ptr<SessionRecording> make(const RecordingPlan& plan,
                                                RecordedRank who);

  SessionRecording(std::unique_ptr<Recorder> recorder, RecordingPlan plan,
                   RecordedRank who);

  Recorder& recorder() { return *recorder_; }

  // The path of the file. Errors: kRunDirectory.
  absl::StatusOr<std::string> save(absl::string_view cause) const;
  // Once in ten seconds at most, for groups that break one after another.
  void save_after_failure();

 private:
  const std::unique_ptr<Recorder> recorder_;
  const RecordingPlan plan_;
  const Recording recording_;
  std::optional<RecordingSignal> signal_;
  std::atomic<int64_t> quiet_until_ns_{0};
};

// Under what a communicator's operations are recorded.
struct RecordedAs {
  std::shared_ptr<SessionRecording> recording = nullptr;  // null: not at all
  uint16_t group = 0;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_RECORDER_SESSION_RECORDING_H_
