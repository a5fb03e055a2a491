// The results of many tries: as a table, as JSON, and held to the promises.
//
// Threads: one. Ownership: values; a case lives for ever.
//
//   std::string table = table_of({tally});
#ifndef DISTWRAP_TESTS_CHAOS_TALLY_H_
#define DISTWRAP_TESTS_CHAOS_TALLY_H_

#include "chaos/case.h"

#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::chaos {

// The results of one case over one backend.
struct Tally {
  const Case* which = nullptr;
  Setting setting;  // setting of the first try
  int tries = 0, bad = 0, skipped = 0;
  int64_t counted = 0;
  std::string why_skipped;
  std::vector<std::vector<int64_t>> times;  // by measure, ascending
  absl::Duration took;

  // The number of values of a measure beyond its limits.
  int64_t late(size_t measure) const;
  int64_t at(size_t measure, double part) const;  // a quantile
};

// Results as Markdown, and as JSON.
std::string table_of(const std::vector<Tally>& tallies);
std::string json_of(const std::vector<Tally>& tallies);

// One line for each time that breaks a promise: the 99th of 100 beyond what is
// usual, where there are as many, or the longest beyond the most. Only a quiet
// machine can be held to that.
std::vector<std::string> broken_promises(const std::vector<Tally>& tallies);

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_TALLY_H_
