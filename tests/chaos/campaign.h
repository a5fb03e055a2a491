// Many tries of a case, one after the other, and what they came to.
//
// Threads: one. Ownership: values.
//
//   Tally tally = run_tries(kKilled, setting, 200, options);
//   std::string table = table_of({tally});
#ifndef DISTWRAP_TESTS_CHAOS_CAMPAIGN_H_
#define DISTWRAP_TESTS_CHAOS_CAMPAIGN_H_

#include "chaos/case.h"

#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::chaos {

struct CampaignOptions {
  // A try that has not ended by then is a bad one.
  absl::Duration patience = absl::Seconds(30);
  // How much later than promised something may come before the try is bad: what
  // the machine may add. What is late is counted in any case.
  absl::Duration slack = absl::Seconds(5);
  bool says_plans = false;  // each, before it happens
  bool keeps_hung = false;  // for a debugger: stops there
};

// Of one case over one backend.
struct Tally {
  const Case* which = nullptr;
  Setting setting;  // of the first
  int tries = 0, bad = 0, skipped = 0;
  int64_t counted = 0;
  std::string why_skipped;
  std::vector<std::vector<int64_t>> times;  // by measure, ascending
  absl::Duration took;

  // Of a measure, beyond its limits.
  int64_t late(size_t measure) const;
  int64_t at(size_t measure, double part) const;  // a quantile
};

// The seeds are setting.seed and those after it. Says how it goes on stderr;
// of each bad try what was wrong and how to repeat it.
Tally run_tries(const Case& which, Setting setting, int tries,
                const CampaignOptions& options);

// Markdown, and JSON.
std::string table_of(const std::vector<Tally>& tallies);
std::string json_of(const std::vector<Tally>& tallies);

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_CAMPAIGN_H_
