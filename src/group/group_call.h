// A call that all ranks of a group make together over the store, and the check
// that they make the same call.
//
// The calls on a group are numbered. The first rank writes its terms; a rank
// with different terms decides the call at once for all ranks, otherwise the
// last rank decides it. Every rank, also a late one, gets the same decision, so
// the ranks' numbers stay equal in all cases. A rank sends four small requests
// to the store, whatever the size of the group, and one more where ranks
// exchange words: the last rank collects the words for all.
#ifndef DISTWRAP_SRC_GROUP_GROUP_CALL_H_
#define DISTWRAP_SRC_GROUP_GROUP_CALL_H_

#include "distwrap/deadline.h"
#include "group/group_state.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::group {

struct CallTerms {
  std::string op;    // "split_group"
  uint64_t hash;     // hash of everything that must be equal
  std::string text;  // the part of it that errors show
};

// The time limit from which a deadline was made a moment ago.
absl::Duration limit_of(Deadline deadline);

// Logs a warning about a call that takes long; `missing` may be empty when it
// is not known.
void warn_of_waiting(const GroupState& group, absl::string_view op,
                     int64_t since_ns, const std::vector<int>& missing);

// Returns when all ranks have made this call. Errors: kCallMismatch with two
// ranks that differ, kTimedOut with the missing ranks. All ranks that make the
// call get the error, also those that come later.
absl::Status meet_for_call(GroupState& group, const CallTerms& terms,
                           Deadline deadline);

// Meets in the same way and returns the words of all ranks, by rank. Words may
// differ.
absl::StatusOr<std::vector<std::string>> gather_for_call(GroupState& group,
                                                         const CallTerms& terms,
                                                         absl::string_view word,
                                                         Deadline deadline);

// The error of a call in which this rank waited when it aborted the group.
ErrorInfo aborted_call(const GroupState& group);
// Called when this rank aborts the group: ends the call in which it waits for
// the other ranks, if it does, with an error on all ranks.
void abort_call(GroupState& group, Deadline tell);

// Replaces the call on a rank that refuses it: the call fails with `why` on all
// ranks and breaks nothing. Waits only for the store, until the deadline.
void refuse_call(GroupState& group, const CallTerms& terms,
                 const ErrorInfo& why, Deadline deadline);

// How often the ranks have met over the board; 0 without one.
uint64_t meetings_of(const GroupState& group);
// Called when an exception has ended this rank's part of a call with `error`.
// The others are told over the board, unless they have met since `met`: then
// they know.
void refuse_thrown_call(GroupState& group, uint64_t met, const char* op,
                        const absl::Status& error);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GROUP_CALL_H_
