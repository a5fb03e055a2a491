// The known name that is most similar to a mistyped one, for "did you mean".
//
// Threads: pure functions.
#ifndef DISTWRAP_SRC_BASE_NEAREST_H_
#define DISTWRAP_SRC_BASE_NEAREST_H_

#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace distwrap::base {

// The known name that takes the fewest edits, the first one of several. Names
// that begin with `name` go before all others. Empty when `known` is empty.
std::string nearest(absl::string_view name,
                    const std::vector<std::string>& known);

}  // namespace distwrap::base

#endif  // DISTWRAP_SRC_BASE_NEAREST_H_
