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
  int largest_size;  // larger groups find no further mistakes
};

// The most basic check comes first: the first failure explains most.
std::vector<Check> all_checks();

#define DISTWRAP_CHECK(name) \
  void name(const dw_backend_api&, int, const Limits&, Findings&)

// meaning.cc: promises are sensible and kept, compared with a slow reference.
DISTWRAP_CHECK(check_promises);
DISTWRAP_CHECK(check_calls);
// rows.cc: rows that lie apart are moved as their lists say, or refused.
DISTWRAP_CHECK(check_rows);
// row_sums.cc: rows are added up on their way, in order and to the bit.
DISTWRAP_CHECK(check_row_sums);
// together.cc: many operations at the same time, in one and several
// communicators.
DISTWRAP_CHECK(check_pairs);
DISTWRAP_CHECK(check_open_works);
DISTWRAP_CHECK(check_many_communicators);
// under_way.cc: a backend that reports operations in flight does so before it
// waits.
DISTWRAP_CHECK(check_under_way);
// prepared.cc: operations that are prepared once and started many times.
DISTWRAP_CHECK(check_prepared);
DISTWRAP_CHECK(check_prepared_abort);
// queued.cc: collectives that a waiting thread may run itself.
DISTWRAP_CHECK(check_queued);
// blocks.cc: strided pieces, where a backend has the extension.
DISTWRAP_CHECK(check_blocks);
// refusal.cc: operations without a promise are refused, and nothing is touched.
DISTWRAP_CHECK(check_refusals);
DISTWRAP_CHECK(check_growth);
// setup.cc: blobs that do not fit, and cancellation in every round.
DISTWRAP_CHECK(check_open);
DISTWRAP_CHECK(check_bad_blobs);
DISTWRAP_CHECK(check_cancelled_setups);
// messages.cc: sends and receives in any order.
DISTWRAP_CHECK(check_messages);
DISTWRAP_CHECK(check_tags);
DISTWRAP_CHECK(check_own_messages);
DISTWRAP_CHECK(check_open_receives);
DISTWRAP_CHECK(check_subsets);
// differing_messages.cc: what is not what its receive expects.
DISTWRAP_CHECK(check_differing_messages);
// groups.cc: sets of operations in another order on every rank.
DISTWRAP_CHECK(check_groups);
// failure.cc: aborts, and closing without the other ranks.
DISTWRAP_CHECK(check_abort);
DISTWRAP_CHECK(check_abort_in_transfer);
DISTWRAP_CHECK(check_close);

#undef DISTWRAP_CHECK

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_CHECKS_H_
