// Hints: what a caller tells backends, which know them by name.
//
// Threads: pure functions.
#ifndef DISTWRAP_SRC_COMM_HINTS_H_
#define DISTWRAP_SRC_COMM_HINTS_H_

#include "plugin/backend_table.h"

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <map>
#include <string>
#include <vector>

namespace distwrap::comm {

using Hints = std::map<std::string, std::string>;

// In the form of the ABI, borrowing their text.
std::vector<dw_hint> hints_of(const Hints& hints);

// kInvalidArgument, with the nearest name, for one that none of them knows.
absl::Status check_hints(absl::Span<const plugin::BackendPtr> backends,
                         const Hints& hints);

// Those that one of them knows.
Hints hints_known_to(absl::Span<const plugin::BackendPtr> backends,
                     const Hints& hints);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_HINTS_H_
