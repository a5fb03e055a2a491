// Many tries of a case, one after the other, counted and timed.
//
// Threads: one. Ownership: values.
//
//   Tally tally = run_tries(kKilled, setting, 200, options);
#ifndef DISTWRAP_TESTS_CHAOS_CAMPAIGN_H_
#define DISTWRAP_TESTS_CHAOS_CAMPAIGN_H_

#include "chaos/tally.h"

#include <absl/time/time.h>

namespace distwrap::chaos {

struct CampaignOptions {
  // A try that has not ended by then is bad.
  absl::Duration patience = absl::Seconds(30);
  // How much later than promised an event may come before the try is bad: the
  // time that the machine may add. Late events are counted in any case.
  absl::Duration slack = absl::Seconds(5);
  bool says_plans = false;  // prints each plan before it is executed
  bool keeps_hung = false;  // leaves a hanging try to a debugger
};

// Runs the seeds setting.seed and the following ones. Prints the progress on
// stderr; for each bad try what was wrong and how to repeat it.
Tally run_tries(const Case& which, Setting setting, int tries,
                const CampaignOptions& options);

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_CAMPAIGN_H_
