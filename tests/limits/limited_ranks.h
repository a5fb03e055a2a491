// Ranks under a limit of their process: threads that start a session, make all
// kinds of calls and end. The limit is set when the threads are there.
#ifndef DISTWRAP_TESTS_LIMITS_LIMITED_RANKS_H_
#define DISTWRAP_TESTS_LIMITS_LIMITED_RANKS_H_

#include "distwrap/status.h"

#include <functional>
#include <string>
#include <vector>

namespace distwrap::testing {

// How far a rank came, and why not further.
struct Reached {
  std::string step;  // "" when it did everything
  absl::Status status;
};

// `limit` and `unlimit` run once for the process, around the steps.
std::vector<Reached> run_limited(const std::string& backend, int ranks,
                                 const std::function<void()>& limit,
                                 const std::function<void()>& unlimit);

// Whether a rank may say this when threads or memory are used up on it, or on
// another rank, that is not `is_alone`. Engines that hide their reasons may say
// kBackendFailed.
bool may_say(const absl::Status& status, const std::string& backend,
             bool is_alone);

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_LIMITS_LIMITED_RANKS_H_
