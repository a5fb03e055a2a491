// A call that all ranks of a group make together, and whether they made the
// same one.
//
// The ranks' calls on a group are counted. The first to come writes down its
// terms; whoever differs decides the call at once, for all; else whoever comes
// last does. Every rank gets the one decision, late ones too, so that the ranks
// count alike whatever happened. A rank pays four small requests to the store,
// whatever the size of the group; where the ranks also give each other a word,
// one more: the last to come collects the words for all.
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
  uint64_t hash;     // of all that must be equal
  std::string text;  // what to show of it
};

// A deadline as it was asked for: it began a moment ago.
absl::Duration limit_of(Deadline deadline);

// On standard error, of a call that takes long; `missing` may not be known.
void warn_of_waiting(const GroupState& group, absl::string_view op,
                     int64_t since_ns, const std::vector<int>& missing);

// Returns when all ranks have made this call. Errors: kCallMismatch naming two
// ranks that differ, on all that come; kTimedOut naming those that are missing,
// on all that come until then and after.
absl::Status meet_for_call(GroupState& group, const CallTerms& terms,
                           Deadline deadline);

// The same; the words of all ranks, by rank. They may differ.
absl::StatusOr<std::vector<std::string>> gather_for_call(GroupState& group,
                                                         const CallTerms& terms,
                                                         absl::string_view word,
                                                         Deadline deadline);

// In place of the call: it fails on all ranks that make it, with `why`, and
// breaks nothing. Waits for nobody but the store, to the deadline.
void refuse_call(GroupState& group, const CallTerms& terms,
                 const ErrorInfo& why, Deadline deadline);

}  // namespace distwrap::group

#endif  // DISTWRAP_SRC_GROUP_GROUP_CALL_H_
