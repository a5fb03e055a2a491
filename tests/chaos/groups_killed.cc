// A rank of several groups is killed while others wait for something else,
// alone or together: all members of all its groups learn of it, and groups
// without it continue to work.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <thread>

namespace distwrap::chaos {
namespace {

struct PlannedGroup {
  std::vector<int> ranks;   // ranks of the world, ascending
  bool in_barrier = false;  // else each waits for a message of another rank

  bool has(int rank) const {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }
  int place(int rank) const {
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) -
                            ranks.begin());
  }
};

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    victim = draw.below(setting.ranks);
    delay = absl::Microseconds(draw.below(3000));
    std::vector<int> all(static_cast<size_t>(setting.ranks));
    std::iota(all.begin(), all.end(), 0);
    groups.push_back({all, draw.coin()});
    const int more = 2 + draw.below(3);
    while (static_cast<int>(groups.size()) < 1 + more) {
      PlannedGroup group;
      for (const int rank : all)
        if (draw.coin()) group.ranks.push_back(rank);
      group.in_barrier = draw.coin();
      if (group.ranks.size() > 1) groups.push_back(std::move(group));
    }
    // A group without the victim.
    PlannedGroup rest{all, false};
    rest.ranks.erase(rest.ranks.begin() + victim);
    groups.push_back(std::move(rest));
  }
  int victim;
  absl::Duration delay;
  std::vector<PlannedGroup> groups;  // the world first
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  std::string text = absl::StrCat("rank ", plan.victim, " is killed; groups:");
  for (const PlannedGroup& group : plan.groups)
    absl::StrAppend(&text, " {", absl::StrJoin(group.ranks, " "), "}",
                    !group.has(plan.victim) ? " works"
                    : group.in_barrier      ? " in a barrier"
                                            : " silent");
  return text;
}

// Waits for a message from a member that sends none: not from the victim, if
// there is another one.
absl::StatusOr<Work> wait_in(const PlannedGroup& planned, const Group& group,
                             int me, int victim, int32_t* into) {
  const OpOptions options{.group = group, .async = true};
  if (planned.in_barrier) return barrier(options);
  int from = victim;
  for (const int rank : planned.ranks)
    if (rank != me && rank != victim) from = rank;
  return irecv(TensorView(into, 1), Peer::group(planned.place(from)), 0,
               options);
}

void watch(const Self& self, const Plan& plan,
           const std::vector<Group>& groups) {
  std::vector<std::thread> threads;
  std::vector<int32_t> into(groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    const PlannedGroup& planned = plan.groups[g];
    if (!planned.has(self.rank) || !planned.has(plan.victim)) continue;
    absl::StatusOr<Work> work =
        wait_in(planned, groups[g], self.rank, plan.victim, &into[g]);
    if (!work.ok()) {
      tell(self.page, g, work.status(), 0, Deadline::now_ns());
      continue;
    }
    threads.emplace_back([&self, g, work = *std::move(work)] {
      const absl::Status status = work.wait();
      tell(self.page, g, status, 0, Deadline::now_ns());
    });
  }
  self.page.ready.store(true);
  for (std::thread& thread : threads) thread.join();
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  std::vector<Group> groups = {session->world()};
  for (size_t g = 1; g < plan.groups.size(); ++g) {
    const absl::StatusOr<Group> group =
        new_group({.ranks = plan.groups[g].ranks});
    if (!group.ok())
      return self.complain(absl::StrCat("group: ", group.status().ToString()));
    groups.push_back(*group);
  }
  if (self.rank == plan.victim) {
    self.page.ready.store(true);
    self.wait_for_all_ready();
    die_at(self, Deadline::now_ns() + absl::ToInt64Nanoseconds(plan.delay) + 1);
    sleep_for(absl::Seconds(60));
  }
  watch(self, plan, groups);
  // Groups without the victim are intact.
  Performer performer(groups.back());
  const Call call{.kind = Kind::kAllReduce, .count = 100};
  for (uint64_t round = 0; round < 3 && groups.back().size() > 1; ++round)
    if (const absl::Status status = performer.perform(call, round);
        !status.ok())
      self.complain(absl::StrCat("a group without it: ", status.ToString()));
  if (!performer.wrong().empty()) self.complain(performer.wrong());
  const absl::Status closed = destroy_process_group();
  if (!closed.ok()) self.complain(absl::StrCat("close: ", closed.ToString()));
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (!job.wait_for_all()) return;
  const int64_t struck = job.ledger().struck_ns.load();
  for (int rank = 0; rank < setting.ranks; ++rank)
    for (size_t g = 0; g < plan.groups.size(); ++g) {
      const PlannedGroup& group = plan.groups[g];
      if (rank == plan.victim || !group.has(rank) || !group.has(plan.victim))
        continue;
      expect_news(job, rank, g, Reason::kPeerLost,
                  bit(group.place(plan.victim)), findings);
      findings.took(0, job.page(rank).news[g].heard_ns.load() - struck);
    }
}

bool ends_well(const Setting& setting, int rank, int code) {
  return code == (rank == Plan(setting).victim ? 128 + SIGKILL : 0);
}

constexpr Measure kMeasures[] = {
    {"from the kill to the error in each group of each other rank",
     absl::Milliseconds(100), absl::Milliseconds(500)}};

}  // namespace

const Case kGroupsKilled = {
    .name = "F2",
    .what = "a rank of several groups is killed while nobody waits for it",
    .full = 500,
    .measures = kMeasures,
    .plan = plan,
    .rank = rank,
    .direct = direct,
    .ends_well = ends_well};

}  // namespace distwrap::chaos
