// A composed operation and its parts, as contestants of `distwrap bench`.
#ifndef DISTWRAP_TESTS_COMPOSED_CONTESTANTS_H_
#define DISTWRAP_TESTS_COMPOSED_CONTESTANTS_H_

#include "bench/contestant.h"
#include "distwrap/abi/plugin.h"

#include <string>
#include <vector>

namespace distwrap::composed {

// The contestants "composed_NAME" and "parts_NAME" of a table that `hearing`
// made.
std::vector<bench::ContestantKind> kinds_of(const std::string& name,
                                            const std::string& summary,
                                            const dw_backend_api& table);

}  // namespace distwrap::composed

#endif  // DISTWRAP_TESTS_COMPOSED_CONTESTANTS_H_
