// The cases, each in the file of its name.
#ifndef DISTWRAP_TESTS_CHAOS_CASES_H_
#define DISTWRAP_TESTS_CHAOS_CASES_H_

#include "chaos/case.h"

namespace distwrap::chaos {

extern const Case kKilled;        // killed.cc
extern const Case kGroupsKilled;  // groups_killed.cc
extern const Case kMutated;       // mutated.cc

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_CASES_H_
