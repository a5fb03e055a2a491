// The rank that is its host's agent is killed, inside a collective or while a
// group is made: every other rank learns at once which rank has gone, and the
// other ranks of the host go on through another agent.
#include "chaos/call.h"
#include "chaos/cases.h"
#include "distwrap/groups.h"

#include <absl/strings/str_cat.h>

#include <csignal>
#include <numeric>
#include <vector>

namespace distwrap::chaos {
namespace {

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    constexpr int64_t kBytes[] = {16, 32 << 10, 1 << 20};
    call = draw_call(draw, setting.ranks, draw.one_of(kBytes));
    host = 1 + draw.below(setting.hosts - 1);
    splits = draw.coin();
    after_us = draw.below(50'000);
  }
  Call call;
  int host;
  bool splits;
  int after_us;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat("the agent of host ", plan.host, " is killed ",
                      plan.after_us, " us after the first of ",
                      plan.splits ? "splits between " : "", plan.call.text());
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  bool goes_on = plan.splits;
  std::vector<int> all(static_cast<size_t>(self.setting.ranks));
  std::iota(all.begin(), all.end(), 0);
  perform_until_loss(self, *session, plan.call, [&](uint64_t) {
    if (!goes_on) return;
    const absl::StatusOr<Group> group = split_group({.split_ranks = {all}});
    goes_on = group.ok() && destroy_process_group(*group).ok();
  });
}

// The victim's end tells the director which rank it was.
void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (!job.wait_until([&] { return job.all_ready(); })) return;
  const int victim = job.agent_of(setting, plan.host);
  if (victim < 0) return findings.bad("the host has no agent");
  sleep_for(absl::Microseconds(plan.after_us));
  job.ledger().struck_ns.store(Deadline::now_ns());
  job.signal(victim, SIGKILL);
  if (!job.wait_for_all()) return;
  if (job.end_of(victim) != 128 + SIGKILL)
    findings.bad(absl::StrCat("rank ", victim, " was not killed"));
  expect_loss(job, setting.ranks, victim, findings);
}

bool ends_well(const Setting& setting, int rank, int code) {
  const bool may_die = host_of(setting, rank) == Plan(setting).host;
  return code == 0 || (may_die && code == 128 + SIGKILL);
}

}  // namespace

const Case kRankAgentKilled = {
    .name = "F32",
    .what = "the rank that is a host's agent is killed",
    .full = 300,
    .on_hosts = true,
    .rank_agents = true,
    .measures = kMeasuresOfLoss,
    .plan = plan,
    .rank = rank,
    .direct = direct,
    .ends_well = ends_well};

}  // namespace distwrap::chaos
