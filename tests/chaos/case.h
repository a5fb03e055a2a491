// A case: what happens to a job in a try, and what has to hold.
//
// A try is run by a director, which starts the ranks, looks at them and judges.
// What is to happen, and to whom, both draw from the seed.
//
// Threads: a case is constant. Ownership: cases live for ever.
#ifndef DISTWRAP_TESTS_CHAOS_CASE_H_
#define DISTWRAP_TESTS_CHAOS_CASE_H_

#include "chaos/job.h"
#include "chaos/ledger.h"
#include "chaos/setting.h"
#include "distwrap/distwrap.h"

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::chaos {

// Something that a case measures, and within which time it has to happen.
struct Measure {
  const char* what;
  absl::Duration usual;  // 99 of 100
  absl::Duration most;
};

// What the director has found in one try.
class Findings {
 public:
  void bad(std::string why) { bad_.push_back(std::move(why)); }
  void took(size_t measure, int64_t ns) { took_.push_back({measure, ns}); }
  void skip(std::string why) { skipped_ = std::move(why); }
  // Calls and the like, for cases whose tries differ in size.
  void count(int64_t n) { counted_ += n; }

  struct Took {
    size_t measure;
    int64_t ns;
  };
  const std::vector<std::string>& bad() const { return bad_; }
  const std::vector<Took>& took() const { return took_; }
  const std::string& skipped() const { return skipped_; }
  int64_t counted() const { return counted_; }

 private:
  std::vector<std::string> bad_;
  std::vector<Took> took_;
  std::string skipped_;
  int64_t counted_ = 0;
};

// A rank, in its own process.
struct Self {
  const Setting& setting;
  int rank;
  Ledger& ledger;
  RankPage& page;

  // A session whose operations have no limit that matters unless one is given:
  // who waits for ever is found by the director.
  InitOptions options(absl::Duration timeout = absl::Seconds(600)) const;
  absl::StatusOr<Session> join(
      absl::Duration timeout = absl::Seconds(600)) const;
  void complain(absl::string_view wrong) const { chaos::complain(page, wrong); }
  // Until all ranks are ready, or the others have given up.
  void wait_for_all_ready() const;
};

struct Case {
  const char* name;  // "F1"
  const char* what;
  int full;               // tries of a full set
  bool preloads = false;  // ranks run with the shifted clock
  // Not with a sanitizer, which has locks that a child never gets, and has to
  // come before all other libraries.
  bool only_plain = false;
  absl::Span<const Measure> measures = {};
  // In words; the same that the others draw.
  std::string (*plan)(const Setting& setting);
  // What a rank does. The process ends with code 0 afterwards.
  void (*rank)(const Self& self);
  // What the director does to a job that has been started, and how it judges.
  // That all ranks end in time is looked at afterwards.
  void (*direct)(const Setting& setting, Job& job, Findings& findings);
  // Whether rank `rank` may end with `code`; null: only with 0.
  bool (*ends_well)(const Setting& setting, int rank, int code) = nullptr;
};

absl::Span<const Case* const> all_cases();
const Case* find_case(absl::string_view name);

// Whether the first error that each rank but `except` heard of `group` is this.
void expect_news(Job& job, int rank, size_t group, Reason reason,
                 uint64_t culprits, Findings& findings);
inline uint64_t bit(int rank) { return uint64_t{1} << rank; }

void sleep_for(absl::Duration duration);
// Kills this process at that time of CLOCK_MONOTONIC, whatever it does then,
// and has the others know when that is.
void die_at(const Self& self, int64_t ns);
// Likewise within a call that began then, after that part of what it took the
// last time.
void die_within(const Self& self, int64_t began_ns, double part,
                int64_t took_ns);

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_CASE_H_
