// A session's recorder with the file that it is saved to: on demand, at a
// signal, and when a group breaks.
//
// Threads: any. Ownership: shared by the session and its communicators, which
// may outlive it.
#ifndef DISTWRAP_SRC_COMM_RECORDER_SESSION_RECORDING_H_
#define DISTWRAP_SRC_COMM_RECORDER_SESSION_RECORDING_H_

#include "base/mutex.h"
#include "comm/recorder/recorder.h"
#include "comm/recorder/recording.h"
#include "comm/recorder/recording_signal.h"
#include "distwrap/deadline.h"

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
  std::string folder;  // used unchanged
  // If there is no `folder`: recordings go to "recording-<job>" in it, of which
  // the newest stay. Empty: nothing can be saved.
  std::string parent;
  int signal = 0;  // 0: none
};

class SessionRecording : public std::enable_shared_from_this<SessionRecording> {
 public:
  // Null when recording is off, or there is no memory for it.
  static std::shared_ptr<SessionRecording> make(const RecordingPlan& plan,
                                                RecordedRank who);

  SessionRecording(std::unique_ptr<Recorder> recorder, RecordingPlan plan,
                   RecordedRank who);

  Recorder& recorder() { return *recorder_; }

  // The path of the file. Errors: kRunDirectory.
  absl::StatusOr<std::string> save(absl::string_view cause) const;
  // Saves the recording after a group has broken, at most once in ten seconds.
  // A thread of its own writes it, and the caller waits at most `kPatience`,
  // since errors must not wait for a disk.
  void save_after_failure();
  // Waits until that thread is done, before a program that failed ends.
  void wait_until_saved(Deadline deadline);

  static constexpr absl::Duration kPatience = absl::Milliseconds(20);

 private:
  void save_and_tell() const;

  const std::unique_ptr<Recorder> recorder_;
  const RecordingPlan plan_;
  const Recording recording_;
  std::optional<RecordingSignal> signal_;
  std::atomic<int64_t> quiet_until_ns_{0};
  base::Mutex mutex_;
  base::CondVar changed_;
  bool saving_ ABSL_GUARDED_BY(mutex_) = false;
};

// How a communicator's operations are recorded.
struct RecordedAs {
  std::shared_ptr<SessionRecording> recording = nullptr;  // null: not at all
  uint16_t group = 0;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_RECORDER_SESSION_RECORDING_H_
