// Saves all recordings of the process when a signal arrives.
//
// The handler allocates nothing and takes no lock, so it also works in a
// process that hangs. After PyTorch's and JAX's dumps on a signal.
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_RECORDER_RECORDING_SIGNAL_H_
#define DISTWRAP_SRC_COMM_RECORDER_RECORDING_SIGNAL_H_

#include "comm/recorder/recording.h"

namespace distwrap::comm {

class RecordingSignal {
 public:
  // Saves `recording` at `signal` as long as this lives. A signal that the
  // program handles itself, or another session chose otherwise, stays as it is;
  // beyond 64 recordings of one process further ones are not saved.
  RecordingSignal(const Recording& recording, int signal);
  // Waits for a handler that is saving the recording.
  ~RecordingSignal();
  RecordingSignal(const RecordingSignal&) = delete;
  RecordingSignal& operator=(const RecordingSignal&) = delete;

 private:
  const Recording& recording_;
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_RECORDER_RECORDING_SIGNAL_H_
