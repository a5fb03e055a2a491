// Errors that the facade itself makes.
#ifndef DISTWRAP_SRC_FACADE_REFUSAL_H_
#define DISTWRAP_SRC_FACADE_REFUSAL_H_

#include "distwrap/op_options.h"
#include "distwrap/status.h"
#include "group/group_state.h"

#include <absl/status/status.h>

namespace distwrap::facade {

// `info` with which call of whom it is.
absl::Status refusal(const char* call, const group::GroupState& group,
                     const OpOptions& options, ErrorInfo info);
// A stream given to a call that has no use for it.
absl::Status refuse_stream(const char* call, const group::GroupState& group,
                           const OpOptions& options);

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_REFUSAL_H_
