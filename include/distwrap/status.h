// What went wrong: every failing call returns an absl::Status that carries an
// ErrorInfo.
//
// Threads: plain data; a Status may be read from several threads.
// Ownership: values.
//
//   absl::Status status = distwrap::barrier().status();
//   if (auto info = distwrap::error_info(status))
//     if (info->reason == distwrap::Reason::kPeerLost) ...
#ifndef DISTWRAP_STATUS_H_
#define DISTWRAP_STATUS_H_

#include "distwrap/export.h"

#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distwrap {

// The finer half of an error; the list is abi/reasons.def.
enum class Reason : uint16_t {
#define DW_REASON(value, name, enumerator, code, python, text) \
  enumerator = value,
#include "distwrap/abi/reasons.def"
};

// "kTimedOut"; "kNone" for a value that has no name.
DISTWRAP_EXPORT absl::string_view reason_name(Reason reason);

// "DW-0062": the page of docs/errors/ about it, which `distwrap info --error`
// shows. The number is the reason's value.
DISTWRAP_EXPORT std::string error_page(Reason reason);

// What a rank was last seen doing by another one of its host.
struct RankSeen {
  int rank = -1;         // of the group
  int global_rank = -1;  // of the world
  std::string host = {};
  int64_t pid = 0;
  enum class Doing : uint8_t {
    kNothing,  // it has made no call on the group
    kInside,   // in `call`
    kDone,     // `call` was its last, and has ended
    kLeft,     // it has left the group
  };
  Doing doing = Doing::kNothing;
  std::string call = {};   // "all_reduce f32 x 1024 sum"
  std::string group = {};  // where it made the call
  uint64_t seq = 0;        // of the call
  std::string label = {};  // likewise; its first characters
  absl::Duration since = absl::ZeroDuration();  // for how long; 0: not known
  // For how long it has not run at all: stopped, or without a processor.
  absl::Duration silent = absl::ZeroDuration();
};

// The fields behind the one line of text. Empty or zero means "not known" or
// "does not apply".
struct ErrorInfo {
  Reason reason = Reason::kNone;
  std::string what = {};   // the statement: what was wrong
  std::string op = {};     // "all_reduce", or a start-up step
  std::string group = {};  // name of the group
  uint64_t seq = 0;        // sequence number of the collective; 0: none
  int my_rank = -1;        // in the group
  int group_size = 0;
  std::vector<int> ranks = {};  // culprits, ranks of the group
  absl::Duration elapsed = absl::ZeroDuration();
  absl::Duration deadline = absl::ZeroDuration();  // the limit in force
  std::string setting = {};  // what changes the limit: "DISTWRAP_HEARTBEAT"
  std::string expected = {};
  std::string actual = {};
  std::string cause = {};      // first cause, text of a lower layer
  std::string next_step = {};  // one thing to do
  std::string label = {};      // the caller's name for the operation
  // What some of `ranks` were doing when they were missed: those of this host
  // that are watched (docs/watching.md).
  std::vector<RankSeen> seen = {};
};

// The ErrorInfo of a status that distwrap made, else nothing.
DISTWRAP_EXPORT std::optional<ErrorInfo> error_info(const absl::Status& status);

// Reason of the status; kNone when it carries none.
DISTWRAP_EXPORT Reason error_reason(const absl::Status& status);

}  // namespace distwrap

#endif  // DISTWRAP_STATUS_H_
