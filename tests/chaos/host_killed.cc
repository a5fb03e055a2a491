// All ranks of a host are killed at once, its agent among them: every rank of
// the other hosts learns of it in the world, where they work, and in a group
// with one rank of each host, where they wait for each other.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <csignal>
#include <vector>

namespace distwrap::chaos {
namespace {

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    constexpr int64_t kBytes[] = {16, 32 << 10, 1 << 20};
    call = draw_call(draw, setting.ranks, draw.one_of(kBytes));
    host = 1 + draw.below(setting.hosts - 1);
    after_us = draw.below(50'000);
  }
  Call call;
  int host;
  int after_us;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat("the ranks of host ", plan.host, " are killed ",
                      plan.after_us, " us after the first of ",
                      plan.call.text());
}

// The groups of the ranks that are at equal places of their hosts.
std::vector<std::vector<int>> across_hosts(const Setting& setting) {
  std::vector<std::vector<int>> groups;
  size_t place = 0;
  for (int rank = 0; rank < setting.ranks; ++rank) {
    const bool begins =
        rank == 0 || host_of(setting, rank) != host_of(setting, rank - 1);
    place = begins ? 0 : place + 1;
    if (place == groups.size()) groups.emplace_back();
    groups[place].push_back(rank);
  }
  return groups;
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  const absl::StatusOr<Group> across =
      split_group({.split_ranks = across_hosts(self.setting)});
  if (!across.ok()) return self.complain(across.status().ToString());
  // From a rank that sends nothing, of a host that lives if there is one.
  int from = plan.host;
  for (int host = 0; host < across->size(); ++host)
    if (host != plan.host && host != across->rank()) from = host;
  int32_t into = 0;
  const absl::StatusOr<Work> message =
      irecv(TensorView(&into, 1), Peer::group(from), 0,
            {.group = *across, .async = true});
  if (!message.ok()) return self.complain(message.status().ToString());
  Performer performer(session->world());
  absl::Status status;
  for (uint64_t round = 0; status.ok(); ++round) {
    status = performer.perform(plan.call, round);
    self.page.ready.store(true);
    self.page.rounds.store(round + 1);
  }
  tell(self.page, 0, status, 0, Deadline::now_ns());
  const absl::Status in_group = message->wait();
  tell(self.page, 1, in_group, 0, Deadline::now_ns());
  if (!performer.wrong().empty()) self.complain(performer.wrong());
  close_broken(self, performer.perform(plan.call, 0));
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (!job.wait_until([&] { return job.all_ready(); })) return;
  if (job.agent_of(setting, plan.host) < 0)
    return findings.bad("the host has no agent");
  sleep_for(absl::Microseconds(plan.after_us));
  const int64_t struck_ns = Deadline::now_ns();
  for (int rank = 0; rank < setting.ranks; ++rank)
    if (host_of(setting, rank) == plan.host) job.signal(rank, SIGKILL);
  if (!job.wait_for_all()) return;
  for (int rank = 0; rank < setting.ranks; ++rank) {
    if (host_of(setting, rank) == plan.host) continue;
    expect_lost_host(setting, job, rank, plan.host, findings);
    const News& in_group = job.page(rank).news[1];
    if (in_group.reason != Reason::kPeerLost ||
        in_group.culprits != bit(plan.host))
      findings.bad(
          absl::StrCat("rank ", rank, " in its group: ", in_group.text));
    const std::string where =
        absl::StrCat(" on ", hosts_test::Hosts::name(plan.host), ")");
    for (size_t group = 0; group < 2; ++group) {
      const News& news = job.page(rank).news[group];
      if (!absl::StrContains(news.text, where))
        findings.bad(
            absl::StrCat("rank ", rank, " hears of no host: ", news.text));
      findings.took(group, news.heard_ns.load() - struck_ns);
    }
    findings.took(2, job.page(rank).took_ns[0].load());
  }
}

bool ends_well(const Setting& setting, int rank, int code) {
  const bool dies = host_of(setting, rank) == Plan(setting).host;
  return code == (dies ? 128 + SIGKILL : 0);
}

constexpr Measure kMeasures[] = {
    {"from the kill to the error of each other rank", absl::Milliseconds(100),
     absl::Milliseconds(500)},
    {"from the kill to the error in the groups with one rank of a host",
     absl::Milliseconds(2200), absl::Milliseconds(2500)},
    {"closing the broken session", absl::Milliseconds(500),
     absl::Milliseconds(500)}};

}  // namespace

const Case kHostKilled = {.name = "F33",
                          .what = "all ranks of a host are killed",
                          .full = 300,
                          .on_hosts = true,
                          .rank_agents = true,
                          .measures = kMeasures,
                          .plan = plan,
                          .rank = rank,
                          .direct = direct,
                          .ends_well = ends_well};

}  // namespace distwrap::chaos
