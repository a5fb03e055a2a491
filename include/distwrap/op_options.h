// The options of one call: the last argument of every operation.
//
// Threads: a value. Ownership: the label is borrowed for the call.
//
//   distwrap::all_reduce(x, ReduceOp::kSum,
//                        {.async = true, .label = "gradients"});
#ifndef DISTWRAP_OP_OPTIONS_H_
#define DISTWRAP_OP_OPTIONS_H_

#include "distwrap/export.h"
#include "distwrap/group.h"
#include "distwrap/types.h"

#include <absl/strings/string_view.h>
#include <absl/time/time.h>

#include <optional>

namespace distwrap {

struct OpOptions {
  Group group = {};  // empty: the world
  bool async = false;
  // The time limit, counted from the call; unset: the group's. InfiniteDuration
  // means no limit. Zero and negative values are refused.
  std::optional<absl::Duration> timeout = std::nullopt;
  // A stream of the memory's device (docs/operations.md). kUnsupported for a
  // device without streams.
  Stream stream = {};
  // A name that the operation's errors quote.
  absl::string_view label = {};
};

// The options of a call that gives none.
DISTWRAP_EXPORT extern const OpOptions kDefaultOptions;

}  // namespace distwrap

#endif  // DISTWRAP_OP_OPTIONS_H_
