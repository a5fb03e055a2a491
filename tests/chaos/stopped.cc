// A rank is stopped. For half of the heartbeat that has no effect; for longer,
// the others get an error at the heartbeat, and the rank gets one when it goes
// on.
#include "chaos/call.h"
#include "chaos/cases.h"
#include "chaos/freezer.h"

#include <absl/strings/str_cat.h>

#include <csignal>
#include <cstdlib>
#include <optional>

namespace distwrap::chaos {
namespace {

constexpr int kHeartbeatsMs[] = {200, 500, 1000};

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    victim = draw.below(setting.ranks);
    heartbeat = draw.below(3);
    is_short = draw.coin();
    by_freezer = draw.coin();
  }
  int heartbeat_ms() const { return kHeartbeatsMs[heartbeat]; }
  int victim, heartbeat;
  bool is_short, by_freezer;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat("rank ", plan.victim,
                      plan.by_freezer ? " is frozen" : " is stopped",
                      plan.is_short ? " for half of the heartbeat of "
                                    : " for more than the heartbeat of ",
                      plan.heartbeat_ms(), " ms");
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  setenv("DISTWRAP_HEARTBEAT",
         absl::StrCat(plan.heartbeat_ms() / 1000.0).c_str(), 1);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  // Rank 0 says when all have done enough. Data that others sent before their
  // error may let one call of a stopped rank succeed.
  for (int32_t enough = 0, times = 0; times < 2; times += enough) {
    if (self.rank == 0) enough = self.ledger.go.load();
    const int64_t began = Deadline::now_ns();
    const absl::Status status =
        all_reduce(TensorView(&enough, 1), ReduceOp::kMax).status();
    if (!status.ok()) {
      self.page.entered_ns[0].store(began);
      tell(self.page, 0, status, 0, Deadline::now_ns());
      break;
    }
    self.page.ready.store(true);
    sleep_for(absl::Milliseconds(1));
  }
  const absl::Status closed = destroy_process_group();
  if (!closed.ok()) self.complain(absl::StrCat("close: ", closed.ToString()));
}

bool have_heard(const Setting& setting, const Plan& plan, Job& job) {
  for (int rank = 0; rank < setting.ranks; ++rank)
    if (rank != plan.victim && !job.page(rank).news[0].is_there()) return false;
  return true;
}

void judge(const Setting& setting, const Plan& plan, Job& job,
           int64_t stopped_ns, int64_t resumed_ns, Findings& findings) {
  const int64_t heartbeat_ns = plan.heartbeat_ms() * int64_t{1'000'000};
  for (int rank = 0; rank < setting.ranks; ++rank) {
    const News& news = job.page(rank).news[0];
    if (plan.is_short) {
      if (news.is_there())
        findings.bad(
            absl::StrCat("a false alarm at rank ", rank, ": ", news.text));
      continue;
    }
    if (rank == plan.victim) {
      if (!news.is_there())
        findings.bad("the rank that stood still was not told");
      else
        findings.took(3, news.heard_ns.load() - resumed_ns);
      continue;
    }
    expect_news(job, rank, 0, Reason::kPeerLost, bit(plan.victim), findings);
    const int64_t took = news.heard_ns.load() - stopped_ns;
    findings.took(static_cast<size_t>(plan.heartbeat), took);
    if (took < heartbeat_ns * 8 / 10)
      findings.bad(absl::StrCat("rank ", rank, " was told too early: after ",
                                took / 1'000'000, " ms"));
  }
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (!job.wait_until([&] {
        for (int rank = 0; rank < setting.ranks; ++rank)
          if (!job.page(rank).ready.load()) return false;
        return true;
      }))
    return;
  std::optional<Freezer> freezer;
  if (plan.by_freezer) {
    freezer.emplace(job.pid(plan.victim));
    if (!freezer->works())
      return findings.skip("no control group to freeze in may be made here");
  }
  const int64_t stopped_ns = Deadline::now_ns();
  plan.by_freezer ? freezer->stop() : job.signal(plan.victim, SIGSTOP);
  if (plan.is_short)
    sleep_for(absl::Milliseconds(plan.heartbeat_ms() / 2));
  else
    job.wait_until([&] { return have_heard(setting, plan, job); });
  const int64_t resumed_ns = Deadline::now_ns();
  plan.by_freezer ? freezer->go_on() : job.signal(plan.victim, SIGCONT);
  if (plan.is_short) {
    // The machine may have stopped it for longer than that.
    if (Deadline::now_ns() - stopped_ns >
        plan.heartbeat_ms() * int64_t{600'000})
      return findings.skip("this machine was too slow for half a heartbeat");
    sleep_for(absl::Milliseconds(50));
  }
  job.ledger().go.store(1);
  if (!job.wait_for_all()) return;
  judge(setting, plan, job, stopped_ns, resumed_ns, findings);
}

constexpr Measure kMeasures[] = {
    {"from the stop to each error, heartbeat 200 ms", absl::Milliseconds(240),
     absl::Milliseconds(240)},
    {"the same, heartbeat 500 ms", absl::Milliseconds(600),
     absl::Milliseconds(600)},
    {"the same, heartbeat 1 s", absl::Milliseconds(1200),
     absl::Milliseconds(1200)},
    {"from going on to the error of who stood still", absl::Milliseconds(200),
     absl::Milliseconds(200)}};

}  // namespace

const Case kStopped = {.name = "F4",
                       .what = "a rank is stopped or frozen, and goes on",
                       .full = 300,
                       .measures = kMeasures,
                       .plan = plan,
                       .rank = rank,
                       .direct = direct};

}  // namespace distwrap::chaos
