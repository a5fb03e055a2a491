// Making errors. An error is made once, where the cause is known, and is passed
// up unchanged.
//
//   return make_error({.reason = Reason::kPluginNotFound,
//                      .what = StrCat("no file at ", path),
//                      .next_step = "give the full path of the plugin"});
#ifndef DISTWRAP_SRC_BASE_ERROR_H_
#define DISTWRAP_SRC_BASE_ERROR_H_

#include "distwrap/status.h"

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <optional>
#include <string>

namespace distwrap::base {

// distwrap/status.h says what it makes. The line has the parts that are known:
//   all_reduce #12 on "world" (rank 0 of 2): kTimedOut: <what>; rank 1; after
//   1.1s (limit 1s: <setting>); expected <e>, got <a>; cause: <c>. Next: <n>,
//   page DW-0060
using distwrap::make_error;

// Values of `setting`: what changes the limit of operations and that of
// start-up.
inline constexpr char kCallLimit[] =
    "the timeout of the call or group, else DISTWRAP_TIMEOUT";
inline constexpr char kInitLimit[] =
    "InitOptions::init_timeout, else DISTWRAP_INIT_TIMEOUT";

// The general advice for errors of a reason.
absl::string_view reason_advice(Reason reason);

// A copy of an error with `edit` applied to its info. A status without an info
// gets one whose `what` is the status's message.
template <class Edit>
absl::Status amend_error(const absl::Status& status, Edit edit) {
  ErrorInfo info = error_info(status).value_or(ErrorInfo{
      .reason = Reason::kBackendFailed, .what = std::string(status.message())});
  edit(info);
  return make_error(info);
}

// The line of an error without its next step, for another error's `cause`.
std::string cause_text(const ErrorInfo& info);
std::string cause_text(const absl::Status& status);

// Encode an ErrorInfo as bytes, for a payload or a peer, and decode it; nullopt
// when the bytes are no ErrorInfo.
std::string encode_error(const ErrorInfo& info);
std::optional<ErrorInfo> decode_error(absl::string_view bytes);

// The code that belongs to a reason.
absl::StatusCode reason_code(Reason reason);

// The text of an errno: "errno 2: No such file or directory".
std::string errno_text(int error);

// A duration with the precision that people need: "2.3s", "29s".
std::string brief_duration(absl::Duration duration);

// "rank 3 (process 4711 on hosta) is in barrier #811 for 29s". The text names
// the call's group when it is not `group`.
std::string seen_text(const RankSeen& seen, absl::string_view group);
// The texts of the first few ranks, each preceded by "; ".
std::string seen_text(const std::vector<RankSeen>& seen,
                      absl::string_view group);

// A sorted list of ranks as text: "0-3, 7".
std::string rank_list(const std::vector<int>& ranks);

// The canonical code of a result code of the C ABI. Code 17 (incompatible),
// which Abseil lacks, becomes kFailedPrecondition.
absl::StatusCode code_of_abi(int32_t code);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_ERROR_H_
