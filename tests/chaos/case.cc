#include "chaos/case.h"

#include "chaos/cases.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <time.h>

namespace distwrap::chaos {

InitOptions Self::options(absl::Duration timeout) const {
  return {.backend = setting.backend,
          .timeout = timeout,
          .init_timeout = absl::Seconds(60),
          .straggler = absl::InfiniteDuration()};
}

absl::StatusOr<Session> Self::join(absl::Duration timeout) const {
  absl::StatusOr<Session> session = init_process_group(options(timeout));
  if (!session.ok())
    complain(absl::StrCat("start: ", session.status().ToString()));
  return session;
}

void Self::wait_for_all_ready() const {
  for (int other = 0; other < setting.ranks; ++other)
    while (!ledger.ranks[other].ready.load())
      sleep_for(absl::Microseconds(100));
}

absl::Span<const Case* const> all_cases() {
  static const Case* const kAll[] = {
      &kKilled,     &kGroupsKilled, &kLeftChild,   &kStopped,
      &kMutated,    &kAborted,      &kLives,       &kForked,
      &kThreaded,   &kStepped,      &kWindowsLost, &kExpertsKilled,
      &kMeshesLost, &kNetworkCut,   &kNetworkPoor, &kNetworkDamaged,
      &kRootLost,   &kAgentKilled,  &kTwoKilled,   &kRankAgentKilled,
      &kHostKilled, &kStrangers};
  return kAll;
}

const Case* find_case(absl::string_view name) {
  for (const Case* const one : all_cases())
    if (name == one->name) return one;
  return nullptr;
}

void expect_news(Job& job, int rank, size_t group, Reason reason,
                 uint64_t culprits, Findings& findings) {
  const News& news = job.page(rank).news[group];
  if (!news.is_there())
    findings.bad(
        absl::StrCat("rank ", rank, " was told nothing of group ", group));
  else if (news.reason != reason || news.culprits != culprits)
    findings.bad(absl::StrCat("rank ", rank, " was told of group ", group,
                              " other than ", reason_name(reason), " of ranks ",
                              absl::Hex(culprits), " (bits): ", news.text));
}

void expect_lost_host(const Setting& setting, Job& job, int rank, int host,
                      Findings& findings, bool may_give_up) {
  uint64_t there = 0;
  for (int other = 0; other < setting.ranks; ++other)
    if (host_of(setting, other) == host) there |= bit(other);
  const News& news = job.page(rank).news[0];
  if (!news.is_there())
    return findings.bad(absl::StrCat("rank ", rank, " was told nothing"));
  const bool is_there = (there & bit(rank)) != 0;
  const bool fits =
      is_there ? (news.culprits & there) == 0 || news.culprits == bit(rank)
               : (news.culprits & ~there) == 0;
  const bool is_named = news.reason == Reason::kPeerLost ||
                        (may_give_up && news.reason == Reason::kAborted);
  if (!is_named || news.culprits == 0 || !fits)
    findings.bad(absl::StrCat("rank ", rank, " of host ",
                              host_of(setting, rank), ": ", news.text));
}

void expect_loss(Job& job, int ranks, int victim, Findings& findings,
                 size_t first) {
  const int64_t struck = job.ledger().struck_ns.load();
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == victim) continue;
    expect_news(job, rank, 0, Reason::kPeerLost, bit(victim), findings);
    findings.took(first, job.page(rank).news[0].heard_ns.load() - struck);
    findings.took(first + 1, job.page(rank).took_ns[0].load());
  }
}

void expect_stop(Job& job, int ranks, int victim, Findings& findings,
                 size_t first) {
  if (!job.page(victim).news[0].is_there())
    findings.bad("the rank that stood still was not told");
  expect_loss(job, ranks, victim, findings, first);
}

void perform_until_loss(const Self& self, const Session& session,
                        const Call& call,
                        absl::FunctionRef<void(uint64_t round)> before) {
  Performer performer(session.world());
  absl::Status status;
  for (uint64_t round = 0; status.ok(); ++round) {
    before(round);
    status = performer.perform(call, round);
    self.page.ready.store(true);
    self.page.rounds.store(round + 1);
  }
  tell(self.page, 0, status, 0, Deadline::now_ns());
  if (!performer.wrong().empty()) self.complain(performer.wrong());
  close_broken(self, performer.perform(call, 0));
}

void close_broken(const Self& self, const absl::Status& later) {
  if (error_reason(later) != Reason::kGroupBroken)
    self.complain(absl::StrCat("a later call: ", later.ToString()));
  const int64_t closing = Deadline::now_ns();
  if (const absl::Status closed = destroy_process_group(); !closed.ok())
    self.complain(absl::StrCat("close: ", closed.ToString()));
  self.page.took_ns[0].store(Deadline::now_ns() - closing);
}

void sleep_for(absl::Duration duration) {
  const timespec span = absl::ToTimespec(duration);
  nanosleep(&span, nullptr);
}

void die_within(const Self& self, int64_t began_ns, double part,
                int64_t took_ns) {
  strike_within(self, began_ns, part, took_ns, SIGKILL);
}

void strike_within(const Self& self, int64_t began_ns, double part,
                   int64_t took_ns, int signal) {
  const auto after = static_cast<int64_t>(part * static_cast<double>(took_ns));
  strike_at(self, began_ns + std::max<int64_t>(1, after), signal);
}

void die_at(const Self& self, int64_t ns) { strike_at(self, ns, SIGKILL); }

void strike_at(const Self& self, int64_t ns, int signal) {
  self.ledger.struck_ns.store(ns);
  sigevent how = {};
  how.sigev_notify = SIGEV_SIGNAL;
  how.sigev_signo = signal;
  timer_t timer;
  itimerspec when = {};
  when.it_value.tv_sec = ns / 1'000'000'000;
  when.it_value.tv_nsec = ns % 1'000'000'000;
  if (timer_create(CLOCK_MONOTONIC, &how, &timer) != 0 ||
      timer_settime(timer, TIMER_ABSTIME, &when, nullptr) != 0) {
    std::perror("timer");
    std::abort();
  }
}

}  // namespace distwrap::chaos
