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

// The hints in the form of the ABI; borrows their text.
std::vector<dw_hint> hints_of(const Hints& hints);

// Returns kInvalidArgument, with the nearest known name, for a hint that none
// of the backends knows.
absl::Status check_hints(absl::Span<const plugin::BackendPtr> backends,
                         const Hints& hints);

// The hints that at least one of the backends knows.
Hints hints_known_to(absl::Span<const plugin::BackendPtr> backends,
                     const Hints& hints);

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_HINTS_H_
