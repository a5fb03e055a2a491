// Errors that the facade itself makes.
#ifndef DISTWRAP_SRC_FACADE_REFUSAL_H_
#define DISTWRAP_SRC_FACADE_REFUSAL_H_

#include "distwrap/op_options.h"
#include "distwrap/status.h"
#include "group/group_state.h"

#include <absl/status/status.h>

namespace distwrap::facade {

// Adds the call, the group, the rank and the label to `info`.
absl::Status refusal(const char* call, const group::GroupState& group,
                     const OpOptions& options, ErrorInfo info);
// The error for a stream given to a call that cannot use it.
absl::Status refuse_stream(const char* call, const group::GroupState& group,
                           const OpOptions& options);

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_REFUSAL_H_
