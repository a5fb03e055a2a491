// How one call is made: the last argument of every operation.
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
  Group group = {};  // none: the world
  bool async = false;
  // From the call's entry on; unset: the group's. Zero or less is refused,
  // InfiniteDuration is none.
  std::optional<absl::Duration> timeout = std::nullopt;
  // Of the memory's device (docs/operations.md); kUnsupported where it has
  // none.
  Stream stream = {};
  // Stands in the operation's errors.
  absl::string_view label = {};
};

// What a call without options uses.
DISTWRAP_EXPORT extern const OpOptions kDefaultOptions;

}  // namespace distwrap

#endif  // DISTWRAP_OP_OPTIONS_H_
