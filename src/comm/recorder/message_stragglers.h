// Reports messages of this rank that have been waiting for too long. The board
// does so for collectives; messages are not on the board, but they are
// recorded.
//
// Threads: runs on the session's thread. Ownership: owned by its session.
#ifndef DISTWRAP_SRC_COMM_RECORDER_MESSAGE_STRAGGLERS_H_
#define DISTWRAP_SRC_COMM_RECORDER_MESSAGE_STRAGGLERS_H_

#include "base/ticks.h"
#include "comm/recorder/recorder.h"
#include "comm/watchdog.h"

#include <absl/time/time.h>

#include <cstdint>
#include <set>

namespace distwrap::comm {

class MessageStragglers final : private Watchdog::Watch {
 public:
  // `recorder` and `watchdog` outlive this object. Each message is reported
  // once, after `patience`; infinite: none is.
  MessageStragglers(Recorder& recorder, Watchdog& watchdog,
                    absl::Duration patience);
  ~MessageStragglers() override;
  MessageStragglers(const MessageStragglers&) = delete;
  MessageStragglers& operator=(const MessageStragglers&) = delete;

 private:
  Deadline expired() override;
  void tell(const Record& record, absl::Duration waited) const;

  Recorder& recorder_;
  Watchdog& watchdog_;
  const absl::Duration patience_;
  std::set<uint64_t> told_;  // by record
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_RECORDER_MESSAGE_STRAGGLERS_H_
