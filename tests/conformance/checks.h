// The checks, each over one backend table and one group size.
//
//   Findings findings;
//   for (const Check& check : all_checks())
//     check.run(*table, 4, {}, findings);
#ifndef DISTWRAP_TESTS_CONFORMANCE_CHECKS_H_
#define DISTWRAP_TESTS_CONFORMANCE_CHECKS_H_

#include "distwrap/abi/plugin.h"
#include "findings.h"
#include "team.h"

#include <vector>

namespace distwrap::conformance {

using CheckFunction = void (*)(const dw_backend_api&, int size, const Limits&,
                               Findings&);

struct Check {
  const char* name;
  CheckFunction run;
  int largest_size;  // larger groups tell nothing new
};

// In the order in which they are of use: the first that fails explains most.
std::vector<Check> all_checks();

#define DISTWRAP_CHECK(name) \
  void name(const dw_backend_api&, int, const Limits&, Findings&)

// meaning.cc: what is promised is sensible and works, by a slow reference.
DISTWRAP_CHECK(check_promises);
DISTWRAP_CHECK(check_calls);
// together.cc: many at once, in one communicator and in several.
DISTWRAP_CHECK(check_pairs);
DISTWRAP_CHECK(check_open_works);
DISTWRAP_CHECK(check_many_communicators);
// under_way.cc: who says so does it before waiting.
DISTWRAP_CHECK(check_under_way);
// refusal.cc: what is not promised is refused, and nothing was touched.
DISTWRAP_CHECK(check_refusals);
DISTWRAP_CHECK(check_growth);
// setup.cc: blobs that do not fit, cancelling in every round.
DISTWRAP_CHECK(check_open);
DISTWRAP_CHECK(check_bad_blobs);
DISTWRAP_CHECK(check_cancelled_setups);
// messages.cc: sends and receives in any order.
DISTWRAP_CHECK(check_messages);
DISTWRAP_CHECK(check_tags);
DISTWRAP_CHECK(check_own_messages);
DISTWRAP_CHECK(check_open_receives);
DISTWRAP_CHECK(check_subsets);
// groups.cc: sets of operations in another order on every rank.
DISTWRAP_CHECK(check_groups);
// failure.cc: aborts, and closing without the others.
DISTWRAP_CHECK(check_abort);
DISTWRAP_CHECK(check_abort_in_transfer);
DISTWRAP_CHECK(check_close);

#undef DISTWRAP_CHECK

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_CHECKS_H_
