// The known name that is most like a mistyped one, for "did you mean".
//
// Threads: pure functions.
#ifndef DISTWRAP_SRC_BASE_NEAREST_H_
#define DISTWRAP_SRC_BASE_NEAREST_H_

#include <absl/strings/string_view.h>

#include <cstddef>
#include <string>
#include <vector>

namespace distwrap::base {

// Letters to insert, drop or change (Levenshtein).
size_t edit_distance(absl::string_view a, absl::string_view b);

// Of those that begin with `name`, else of all: the first of those that take
// the fewest edits; empty when none is known.
std::string nearest(absl::string_view name,
                    const std::vector<std::string>& known);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_NEAREST_H_
