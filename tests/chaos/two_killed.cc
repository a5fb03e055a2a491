// Two ranks are killed within 10 ms inside collectives: every other rank names
// one of them, or both.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/str_cat.h>

#include <csignal>

namespace distwrap::chaos {
namespace {

constexpr int64_t kApartUs = 10'000;

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    constexpr int64_t kBytes[] = {16, 32 << 10, 1 << 20};
    call = draw_call(draw, setting.ranks, draw.one_of(kBytes));
    first = draw.below(setting.ranks);
    second = (first + 1 + draw.below(setting.ranks - 1)) % setting.ranks;
    after_us = draw.below(20'000);
    apart_us = draw.below(kApartUs);
  }
  bool dies(int rank) const { return rank == first || rank == second; }
  Call call;
  int first, second;
  int after_us, apart_us;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat("rank ", plan.first, " is killed, and ", plan.apart_us,
                      " us later rank ", plan.second, ", in rounds of ",
                      plan.call.text());
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  perform_until_loss(self, *session, plan.call);
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (!job.wait_until([&] { return job.all_ready(); })) return;
  sleep_for(absl::Microseconds(plan.after_us));
  const int64_t struck_ns = Deadline::now_ns();
  job.signal(plan.first, SIGKILL);
  sleep_for(absl::Microseconds(plan.apart_us));
  job.signal(plan.second, SIGKILL);
  if (!job.wait_for_all()) return;
  const uint64_t both = bit(plan.first) | bit(plan.second);
  for (int rank = 0; rank < setting.ranks; ++rank) {
    if (plan.dies(rank)) continue;
    const News& news = job.page(rank).news[0];
    if (!news.is_there() || news.reason != Reason::kPeerLost ||
        news.culprits == 0 || (news.culprits & ~both) != 0)
      findings.bad(absl::StrCat("rank ", rank, ": ", news.text));
    if (!news.is_there()) continue;
    findings.took(0, news.heard_ns.load() - struck_ns);
    findings.took(1, job.page(rank).took_ns[0].load());
  }
}

bool ends_well(const Setting& setting, int rank, int code) {
  const Plan plan(setting);
  // The second one may have learnt of the first, and be at its end.
  return code == (plan.dies(rank) ? 128 + SIGKILL : 0) ||
         (rank == plan.second && code == 0);
}

constexpr Measure kMeasures[] = {
    {"from the first kill to the error of each other rank",
     absl::Milliseconds(100), absl::Milliseconds(500)},
    {"closing the broken session", absl::Milliseconds(500),
     absl::Milliseconds(500)}};

}  // namespace

const Case kTwoKilled = {.name = "F31",
                         .what = "two ranks are killed within 10 ms",
                         .full = 500,
                         .measures = kMeasures,
                         .plan = plan,
                         .rank = rank,
                         .direct = direct,
                         .ends_well = ends_well};

}  // namespace distwrap::chaos
