// A case: the fault that a job suffers in a try, and the conditions that have
// to hold.
//
// A director runs a try: it starts the ranks, watches them and judges. Director
// and ranks draw the fault and its victim from the same seed.
//
// Threads: a case is constant. Ownership: cases live for ever.
#ifndef DISTWRAP_TESTS_CHAOS_CASE_H_
#define DISTWRAP_TESTS_CHAOS_CASE_H_

#include "chaos/call.h"
#include "chaos/job.h"
#include "chaos/ledger.h"
#include "chaos/setting.h"
#include "distwrap/distwrap.h"

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace distwrap::chaos {

// An event that a case measures, and the time in which it has to happen.
struct Measure {
  const char* what;
  absl::Duration usual;  // limit for 99 of 100 tries
  absl::Duration most;
};

// The findings of the director in one try.
class Findings {
 public:
  void bad(std::string why) { bad_.push_back(std::move(why)); }
  void took(size_t measure, int64_t ns) { took_.push_back({measure, ns}); }
  void skip(std::string why) { skipped_ = std::move(why); }
  // Counts calls and the like, for cases whose tries differ in size.
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

// A rank in its own process.
struct Self {
  const Setting& setting;
  int rank;
  Ledger& ledger;
  RankPage& page;

  // The options of a session whose operations have no effective limit unless
  // one is given; the director notices a rank that waits for ever.
  InitOptions options(absl::Duration timeout = absl::Seconds(600)) const;
  absl::StatusOr<Session> join(
      absl::Duration timeout = absl::Seconds(600)) const;
  void complain(absl::string_view wrong) const { chaos::complain(page, wrong); }
  // Waits until all ranks are ready, or the others have given up.
  void wait_for_all_ready() const;
};

struct Case {
  const char* name;  // "F1"
  const char* what;
  int full;               // tries of a full set
  bool preloads = false;  // whether ranks run with the shifted clock
  // Not with a sanitizer: it has locks that a forked child never gets, and it
  // must come before all other libraries.
  bool only_plain = false;
  // Only with several hosts; and joined by a cable of the tests' own.
  bool on_hosts = false, on_cable = false;
  // With ranks as agents.
  bool rank_agents = false;
  bool needs_hosts() const { return on_hosts || on_cable; }
  absl::Span<const Measure> measures = {};
  // The plan in words, equal to the one that ranks draw.
  std::string (*plan)(const Setting& setting);
  // The body of a rank. The process ends with code 0 afterwards.
  void (*rank)(const Self& self);
  // The director's actions on a started job, and its judgement. Whether all
  // ranks end in time is checked afterwards.
  void (*direct)(const Setting& setting, Job& job, Findings& findings);
  // Whether rank `rank` may end with `code`; null: only with 0.
  bool (*ends_well)(const Setting& setting, int rank, int code) = nullptr;
  // Whether a rank may print that line; null: it prints nothing.
  bool (*may_print)(absl::string_view line) = nullptr;
};

absl::Span<const Case* const> all_cases();
const Case* find_case(absl::string_view name);

// Whether this is the first error of `group` that each rank except `rank` got.
void expect_news(Job& job, int rank, size_t group, Reason reason,
                 uint64_t culprits, Findings& findings);
// Whether the first error of `rank` says that ranks of a host are lost, and on
// that host that ranks of others are, or that the others gave this rank up.
// `may_give_up`: that one of that host has given up is told as well.
void expect_lost_host(const Setting& setting, Job& job, int rank, int host,
                      Findings& findings, bool may_give_up = false);
inline uint64_t bit(int rank) { return uint64_t{1} << rank; }
// Judges the ranks of a job whose rank `victim` was killed or stopped: each of
// the others was told. Their measures are `first`, the time from the fault to
// the error, and the next one, that of `close_broken`.
void expect_loss(Job& job, int ranks, int victim, Findings& findings,
                 size_t first = 0);
// The measures of expect_loss after a kill.
inline constexpr Measure kMeasuresOfLoss[] = {
    {"from the kill to the error of each other rank", absl::Milliseconds(100),
     absl::Milliseconds(500)},
    {"closing the broken session", absl::Milliseconds(500),
     absl::Milliseconds(500)}};
// Judges also a victim that goes on after a stop: it was told, too.
void expect_stop(Job& job, int ranks, int victim, Findings& findings,
                 size_t first);
// Makes the call again and again until it fails, tells the error, and ends the
// rank. `before` runs before each round.
void perform_until_loss(const Self& self, const Session& session,
                        const Call& call,
                        absl::FunctionRef<void(uint64_t round)> before);
inline void perform_until_loss(const Self& self, const Session& session,
                               const Call& call) {
  perform_until_loss(self, session, call, [](uint64_t /*round*/) {});
}
// Ends a rank whose group is broken: `later` is the status of a call after the
// error. The time of the close goes to the page.
void close_broken(const Self& self, const absl::Status& later);

void sleep_for(absl::Duration duration);
// Sends this process a signal, SIGKILL or SIGSTOP, at that time of
// CLOCK_MONOTONIC, whatever it is doing, and tells the others the time.
void strike_at(const Self& self, int64_t ns, int signal);
void die_at(const Self& self, int64_t ns);
// Kills this process within a call that began at `began_ns`, after this part of
// the time that the previous call took.
void die_within(const Self& self, int64_t began_ns, double part,
                int64_t took_ns);
// As die_within, with any signal of strike_at.
void strike_within(const Self& self, int64_t began_ns, double part,
                   int64_t took_ns, int signal);

}  // namespace distwrap::chaos

#endif  // DISTWRAP_TESTS_CHAOS_CASE_H_
