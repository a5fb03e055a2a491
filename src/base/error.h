// Making errors. An error is made once, where the cause is known, and passed up
// unchanged.
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

// A status with the code of the reason, one line of text and the payload:
//   all_reduce #12 on "world" (rank 0 of 2): kTimedOut: <what>; rank 1; after
//   1.1s (limit 1s: <setting>); expected <e>, got <a>; cause: <c>. Next: <n>,
//   page DW-0060
// with the parts that are known. Where the info has no next step it gets that
// of its reason.
absl::Status make_error(const ErrorInfo& info);

// What changes the limit of operations and that of the start, for `setting`.
inline constexpr char kCallLimit[] =
    "the timeout of the call or group, else DISTWRAP_TIMEOUT";
inline constexpr char kInitLimit[] =
    "InitOptions::init_timeout, else DISTWRAP_INIT_TIMEOUT";

// What to do about errors of a reason in general.
absl::string_view reason_advice(Reason reason);

// The same error with `edit` applied to its info; other statuses get an info
// whose `what` is their message.
template <class Edit>
absl::Status amend_error(const absl::Status& status, Edit edit) {
  ErrorInfo info = error_info(status).value_or(ErrorInfo{
      .reason = Reason::kBackendFailed, .what = std::string(status.message())});
  edit(info);
  return make_error(info);
}

// The line of an error without its next step, to stand in another's `cause`.
std::string cause_text(const ErrorInfo& info);
std::string cause_text(const absl::Status& status);

// An ErrorInfo as bytes, for a payload or a peer, and back; nothing when the
// bytes are not one.
std::string encode_error(const ErrorInfo& info);
std::optional<ErrorInfo> decode_error(absl::string_view bytes);

// Code that belongs to a reason.
absl::StatusCode reason_code(Reason reason);

// "errno 2: No such file or directory".
std::string errno_text(int error);

// "2.3s", "29s": as exact as people need it.
std::string brief_duration(absl::Duration duration);

// "rank 3 (process 4711 on hosta) is in barrier #811 for 29s". Of another group
// than `group` the call's is named.
std::string seen_text(const RankSeen& seen, absl::string_view group);
// The same of several, of the first few, each behind "; ".
std::string seen_text(const std::vector<RankSeen>& seen,
                      absl::string_view group);

// "0-3, 7": a sorted list of ranks for people.
std::string rank_list(const std::vector<int>& ranks);

// Result code of the C ABI as a canonical one: 17 (incompatible), which Abseil
// lacks, is a failed precondition.
absl::StatusCode code_of_abi(int32_t code);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_ERROR_H_
