// A thread aborts a group while ranks are in a call, or while one of them does
// not come: all ranks learn at once which rank aborted, and nothing of the
// group remains.
#include "chaos/call.h"
#include "chaos/cases.h"
#include "chaos/resources.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <thread>

namespace distwrap::chaos {
namespace {

// Sessions of a try, one after the other; each has its own news.
constexpr int kSessions = 4;
static_assert(kSessions <= static_cast<int>(kMostGroups));

struct Plan {
  Plan(const Setting& setting, int session) {
    Setting own = setting;
    own.seed = setting.seed * kSessions + static_cast<uint64_t>(session);
    Draw draw(own);
    constexpr int64_t kBytes[] = {16, 32 << 10, 1 << 20};
    call = draw_call(draw, setting.ranks, draw.one_of(kBytes));
    aborter = draw.below(setting.ranks);
    // The rank before the aborter, so that it is another rank; or none.
    if (draw.coin()) absent = (aborter + setting.ranks - 1) % setting.ranks;
    delay = absl::Microseconds(draw.below(3000));
  }
  Call call;
  int aborter, absent = -1;
  absl::Duration delay;
};

std::string plan(const Setting& setting) {
  std::string text;
  for (int session = 0; session < kSessions; ++session) {
    const Plan plan(setting, session);
    absl::StrAppend(&text, session == 0 ? "" : "; ", "rank ", plan.aborter,
                    " aborts in ", plan.call.text());
    if (plan.absent >= 0)
      absl::StrAppend(&text, ", to which rank ", plan.absent, " does not come");
  }
  return text;
}

// When a session's group was aborted, and how long the abort took.
std::atomic<int64_t>& aborted_ns(Ledger& ledger, const Plan& plan,
                                 int session) {
  return ledger.ranks[plan.aborter].entered_ns[session];
}

void one_session(const Self& self, int number) {
  const Plan plan(self.setting, number);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  std::atomic<int64_t>& aborted = aborted_ns(self.ledger, plan, number);
  Performer performer(session->world());
  // Some ranks may still be in the call when the first one aborts.
  int64_t began = Deadline::now_ns();
  absl::Status status = performer.perform({}, 0);
  std::thread aborter;
  if (self.rank == plan.aborter)
    aborter = std::thread([&] {
      bind_session(*session);
      sleep_for(plan.delay);
      aborted.store(Deadline::now_ns());
      const absl::Status done = abort(session->world());
      self.page.took_ns[number].store(Deadline::now_ns() - aborted.load());
      if (!done.ok()) self.complain(absl::StrCat("abort: ", done.ToString()));
      bind_session({});
    });
  if (self.rank == plan.absent && status.ok()) {
    // The absent rank comes after all could know.
    while (aborted.load() == 0) sleep_for(absl::Milliseconds(1));
    sleep_for(absl::Milliseconds(200));
  }
  for (uint64_t round = 0; status.ok(); ++round) {
    began = Deadline::now_ns();
    status = performer.perform(plan.call, round);
  }
  tell(self.page, static_cast<size_t>(number), status, 0, Deadline::now_ns());
  if (self.rank == plan.absent)
    self.page.entered_ns[kSessions + number].store(began);
  if (aborter.joinable()) aborter.join();
  if (!performer.wrong().empty()) self.complain(performer.wrong());
  const absl::Status closed = destroy_process_group();
  if (!closed.ok()) self.complain(absl::StrCat("close: ", closed.ToString()));
}

void rank(const Self& self) {
  Resources before;
  for (int session = 0; session < kSessions; ++session) {
    one_session(self, session);
    if (session == 0) before = Resources::now();
  }
  // A broken group over UCX on several hosts keeps descriptors and a thread.
  if (self.setting.backend == "ucx" && self.setting.hosts > 1) return;
  if (const std::string leaked = leaked_since(before); !leaked.empty())
    self.complain("left: " + leaked);
}

void judge(const Setting& setting, int number, Job& job, Findings& findings) {
  const Plan plan(setting, number);
  const int64_t aborted = aborted_ns(job.ledger(), plan, number).load();
  findings.took(0, job.page(plan.aborter).took_ns[number].load());
  findings.count(1);
  for (int rank = 0; rank < setting.ranks; ++rank) {
    RankPage& page = job.page(rank);
    const News& news = page.news[number];
    if (!news.is_there()) {
      findings.bad(absl::StrCat("rank ", rank, " was told nothing"));
      continue;
    }
    // A later call is refused for this reason.
    const bool is_named =
        rank == plan.aborter
            ? absl::StrContains(news.text, "the group was aborted")
            : news.culprits == bit(plan.aborter);
    if ((news.reason != Reason::kAborted &&
         news.reason != Reason::kGroupBroken) ||
        !is_named)
      findings.bad(absl::StrCat("rank ", rank, " does not say that rank ",
                                plan.aborter, " has aborted: ", news.text));
    const int64_t heard = news.heard_ns.load();
    if (rank == plan.absent)
      findings.took(2, heard - page.entered_ns[kSessions + number].load());
    else
      findings.took(rank == plan.aborter ? 1 : 2, heard - aborted);
  }
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  if (!job.wait_for_all()) return;
  for (int session = 0; session < kSessions; ++session)
    judge(setting, session, job, findings);
}

constexpr Measure kMeasures[] = {
    {"the abort", absl::Milliseconds(50), absl::Milliseconds(50)},
    {"from the abort to the error on its rank", absl::Milliseconds(100),
     absl::Milliseconds(100)},
    {"from the abort to the error on each other rank", absl::Milliseconds(200),
     absl::Milliseconds(200)}};

}  // namespace

const Case kAborted = {.name = "F11",
                       .what = "a thread aborts a group that is in a call",
                       .full = 1000 / kSessions,
                       .measures = kMeasures,
                       .plan = plan,
                       .rank = rank,
                       .direct = direct};

}  // namespace distwrap::chaos
