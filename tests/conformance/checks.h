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
};

// In the order in which they are of use: the first that fails explains most.
std::vector<Check> all_checks();

// meaning.cc: what is promised works, against a slow reference.
void check_waiting_calls(const dw_backend_api&, int, const Limits&, Findings&);
void check_async_calls(const dw_backend_api&, int, const Limits&, Findings&);
void check_many_communicators(const dw_backend_api&, int, const Limits&,
                              Findings&);
// refusal.cc: what is not promised is refused, and nothing was touched.
void check_refusals(const dw_backend_api&, int, const Limits&, Findings&);
void check_growth(const dw_backend_api&, int, const Limits&, Findings&);
// setup.cc: blobs that do not fit, cancelling in every round.
void check_open(const dw_backend_api&, int, const Limits&, Findings&);
void check_bad_blobs(const dw_backend_api&, int, const Limits&, Findings&);
void check_cancelled_setups(const dw_backend_api&, int, const Limits&,
                            Findings&);
// messages.cc: sends and receives in any order.
void check_messages(const dw_backend_api&, int, const Limits&, Findings&);
void check_open_receives(const dw_backend_api&, int, const Limits&, Findings&);
// failure.cc: aborts.
void check_abort(const dw_backend_api&, int, const Limits&, Findings&);
void check_abort_in_transfer(const dw_backend_api&, int, const Limits&,
                             Findings&);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_CHECKS_H_
