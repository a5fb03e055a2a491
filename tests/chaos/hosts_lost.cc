// A host is lost as a whole: the one that serves the store, at any moment from
// the start on (F14), or the agent of another one (F30). All other ranks learn
// of it.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <csignal>

namespace distwrap::chaos {
namespace {

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    constexpr int64_t kBytes[] = {16, 32 << 10, 1 << 20};
    call = draw_call(draw, setting.ranks, draw.one_of(kBytes));
    is_root = setting.name == "F14";
    host = is_root ? 0 : 1 + draw.below(setting.hosts - 1);
    // A rank that goes to the store's address by itself waits until the
    // deadline of the start for a store that may yet come.
    starts = is_root && draw.coin() && !setting.rank_agents;
    after_us = draw.below(starts ? 150'000 : 50'000);
  }
  Call call;
  bool is_root, starts;
  int host;
  int after_us;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat(plan.is_root ? "host " : "the agent of host ", plan.host,
                      " ends ", plan.after_us, " us after ",
                      plan.starts ? "the job's begin" : "the first of ",
                      plan.starts ? "" : plan.call.text());
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  const absl::StatusOr<Session> session = init_process_group(self.options());
  if (!session.ok()) {
    if (!plan.starts) self.complain(session.status().ToString());
    return tell(self.page, 1, session.status(), 0, Deadline::now_ns());
  }
  perform_until_loss(self, *session, plan.call);
}

bool dies(const Setting& setting, int rank) {
  return setting.name == "F14" && host_of(setting, rank) == 0;
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (!plan.starts && !job.wait_until([&] { return job.all_ready(); })) return;
  sleep_for(absl::Microseconds(plan.after_us));
  const int64_t lost_ns = Deadline::now_ns();
  if (plan.is_root) {
    for (int rank = 0; rank < setting.ranks; ++rank)
      if (dies(setting, rank)) job.signal(rank, SIGKILL);
    job.end_store();
  } else {
    job.end_agent(plan.host);
  }
  if (!job.wait_for_all()) return;
  for (int rank = 0; rank < setting.ranks; ++rank) {
    if (dies(setting, rank)) continue;
    const News& at_start = job.page(rank).news[1];
    if (!at_start.is_there())
      expect_lost_host(setting, job, rank, plan.host, findings);
    else if (at_start.reason != Reason::kStoreUnreachable &&
             at_start.reason != Reason::kPeerLost &&
             at_start.reason != Reason::kAborted)
      findings.bad(absl::StrCat("rank ", rank, ": ", at_start.text));
    const News& news = at_start.is_there() ? at_start : job.page(rank).news[0];
    // A rank may have begun after the end of the store.
    if (news.is_there() && !at_start.is_there())
      findings.took(0, news.heard_ns.load() - lost_ns);
  }
}

bool ends_well(const Setting& setting, int rank, int code) {
  return code == (dies(setting, rank) ? 128 + SIGKILL : 0);
}

constexpr Measure kRootMeasures[] = {
    {"from the end of the store's host to the error of each other rank",
     absl::Seconds(1), absl::Seconds(1)}};
constexpr Measure kAgentMeasures[] = {
    {"from the end of the agent to the error of each rank",
     absl::Milliseconds(100), absl::Milliseconds(500)}};

}  // namespace

const Case kRootLost = {.name = "F14",
                        .what = "the host of the store dies",
                        .full = 200,
                        .on_hosts = true,
                        .measures = kRootMeasures,
                        .plan = plan,
                        .rank = rank,
                        .direct = direct,
                        .ends_well = ends_well};
const Case kAgentKilled = {.name = "F30",
                           .what = "a host's agent ends",
                           .full = 300,
                           .on_hosts = true,
                           .measures = kAgentMeasures,
                           .plan = plan,
                           .rank = rank,
                           .direct = direct,
                           .ends_well = ends_well};

}  // namespace distwrap::chaos
