// Errors: every failing call returns an absl::Status that carries an ErrorInfo.
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

// The finer half of an error; abi/reasons.def lists the reasons.
enum class Reason : uint16_t {
#define DW_REASON(value, name, enumerator, code, python, text) \
  enumerator = value,
#include "distwrap/abi/reasons.def"
};

// The name of a reason, for example "kTimedOut"; "kNone" for an unknown value.
DISTWRAP_EXPORT absl::string_view reason_name(Reason reason);

// The name of the page of docs/errors/ about a reason, for example "DW-0062";
// `distwrap info --error` prints the page. The number is the reason's value.
DISTWRAP_EXPORT std::string error_page(Reason reason);

// The call in which another rank of the same host last saw a rank.
struct RankSeen {
  int rank = -1;         // rank of the group
  int global_rank = -1;  // rank of the world
  std::string host = {};
  int64_t pid = 0;
  enum class Doing : uint8_t {
    kNothing,  // the rank has made no call on the group
    kInside,   // the rank is in `call`
    kDone,     // `call` was the rank's last and has ended
    kLeft,     // the rank has left the group
  };
  Doing doing = Doing::kNothing;
  std::string call = {};   // "all_reduce f32 x 1024 sum"
  std::string group = {};  // the group of the call
  uint64_t seq = 0;        // sequence number of the call
  std::string label = {};  // first characters of the call's label
  absl::Duration since = absl::ZeroDuration();  // time in this state; 0: not
                                                // known
  // For how long the rank has not run at all: it is stopped or has no
  // processor.
  absl::Duration silent = absl::ZeroDuration();
};

// The fields behind the one line of an error. An empty or zero field is not
// known or does not apply.
struct ErrorInfo {
  Reason reason = Reason::kNone;
  std::string what = {};   // the statement: which rule was broken
  std::string op = {};     // "all_reduce", or a start-up step
  std::string group = {};  // name of the group
  uint64_t seq = 0;        // sequence number of the collective; 0: none
  int my_rank = -1;        // in the group
  int group_size = 0;
  std::vector<int> ranks = {};  // the ranks to blame, as ranks of the group
  absl::Duration elapsed = absl::ZeroDuration();
  absl::Duration deadline = absl::ZeroDuration();  // the limit in force
  std::string setting = {};  // the setting that changes the limit:
                             // "DISTWRAP_HEARTBEAT"
  std::string expected = {};
  std::string actual = {};
  std::string cause = {};      // first cause, as text of a lower layer
  std::string next_step = {};  // one thing to do next
  std::string label = {};      // the caller's name for the operation
  // The calls in which some of `ranks` were last seen: ranks of this host that
  // are watched (docs/watching.md).
  std::vector<RankSeen> seen = {};
};

// The ErrorInfo of a status that distwrap made; nullopt for other statuses.
DISTWRAP_EXPORT std::optional<ErrorInfo> error_info(const absl::Status& status);

// A status with the code of the reason, one line of text made of the parts that
// are known, and the ErrorInfo itself. Libraries of operators make their errors
// with it. An info without a next step gets the one of its reason.
DISTWRAP_EXPORT absl::Status make_error(const ErrorInfo& info);

// The reason of a status; kNone for a status without one.
DISTWRAP_EXPORT Reason error_reason(const absl::Status& status);

}  // namespace distwrap

#endif  // DISTWRAP_STATUS_H_
