// Runs a body in a process of its own, with a limit on its time: for limits
// that hold for a process, and for what may end one.
#ifndef DISTWRAP_TESTS_LIMITS_IN_CHILD_H_
#define DISTWRAP_TESTS_LIMITS_IN_CHILD_H_

#include <functional>
#include <string>

namespace distwrap::testing {

// "" when the body returned 0 within `seconds`; else how the child ended, in
// words. A child that is late is killed.
std::string run_in_child(int seconds, const std::function<int()>& body);

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_LIMITS_IN_CHILD_H_
