// The number of tries of each case over each backend: for a moment, for half an
// hour, and in full.
#ifndef DISTWRAP_TESTS_CHAOS_SETS_H_
#define DISTWRAP_TESTS_CHAOS_SETS_H_

#include "chaos/case.h"

#include <string>
#include <vector>

namespace distwrap::chaos {

struct Share {
  const Case* which;
  int tries;
};

// "sample", "long", "full"; empty for other names.
std::vector<Share> shares_of(const std::string& set);

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_SETS_H_
