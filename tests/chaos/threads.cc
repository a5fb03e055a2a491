// Thirty-two threads of each rank work on one group, or on eight: each sends
// and receives with its own tag, and one thread of each group makes its
// collectives, all at the same time.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/str_cat.h>

#include <thread>
#include <vector>

namespace distwrap::chaos {
namespace {

constexpr int kThreads = 32;

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    groups = draw.coin() ? 1 : 8;
    rounds = 20 + draw.below(60);
    count = draw.coin() ? 1 : 1000;
    is_async = draw.coin();
  }
  int groups, rounds, count;
  bool is_async;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat(kThreads, " threads on ", plan.groups, " groups, ",
                      plan.rounds, " rounds of ", plan.count, " elements",
                      plan.is_async ? ", not waited for at once" : "");
}

// Sends to the next rank and receives from the previous one, with the thread's
// own tag.
absl::Status exchange(const Plan& plan, const Group& group, int thread,
                      int round, std::string* wrong) {
  const int n = group.size(), me = group.rank();
  const int from = (me + n - 1) % n;
  const auto value = [&](int rank) {
    return (rank * kThreads + thread) * 1000 + round;
  };
  std::vector<int32_t> in(static_cast<size_t>(plan.count)),
      out(in.size(), value(me));
  const absl::StatusOr<Work> received =
      irecv(TensorView(in), Peer::group(from), thread, {.group = group});
  if (!received.ok()) return received.status();
  absl::Status status;
  if (plan.is_async) {
    const absl::StatusOr<Work> sent = isend(
        TensorView(out), Peer::group((me + 1) % n), thread, {.group = group});
    status = sent.ok() ? sent->wait() : sent.status();
  } else {
    status = send(TensorView(out), Peer::group((me + 1) % n), thread,
                  {.group = group});
  }
  if (status.ok()) status = received->wait();
  for (const int32_t got : in)
    if (status.ok() && got != value(from))
      *wrong = absl::StrCat("wrong data called success: ", got, " in place of ",
                            value(from));
  return status;
}

void work(const Self& self, const Plan& plan, const Group& group, int thread) {
  Performer performer(group);
  std::string wrong;
  // The first thread of a group makes the collectives, whose order is equal on
  // all ranks.
  const bool is_first = thread < plan.groups;
  for (int round = 0; round < plan.rounds; ++round) {
    const absl::Status status =
        is_first ? performer.perform({.kind = Kind::kAllReduce,
                                      .count = plan.count,
                                      .async = plan.is_async},
                                     static_cast<uint64_t>(round))
                 : exchange(plan, group, thread, round, &wrong);
    if (!status.ok()) return self.complain(status.ToString());
    self.page.counted.fetch_add(is_first ? 1 : 2);
  }
  if (wrong.empty()) wrong = performer.wrong();
  if (!wrong.empty()) self.complain(wrong);
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  std::vector<Group> groups = {session->world()};
  while (static_cast<int>(groups.size()) < plan.groups) {
    const absl::StatusOr<Group> group = new_group();
    if (!group.ok()) return self.complain(group.status().ToString());
    groups.push_back(*group);
  }
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      bind_session(*session);
      work(self, plan, groups[static_cast<size_t>(thread % plan.groups)],
           thread);
      bind_session({});
    });
  for (std::thread& thread : threads) thread.join();
  const absl::Status closed = destroy_process_group();
  if (!closed.ok()) self.complain(absl::StrCat("close: ", closed.ToString()));
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  if (!job.wait_for_all()) return;
  for (int rank = 0; rank < setting.ranks; ++rank)
    findings.count(job.page(rank).counted.load());
}

}  // namespace

const Case kThreaded = {.name = "F20",
                        .what = "32 threads on one group and on eight",
                        .full = 80,  // about a million calls
                        .plan = plan,
                        .rank = rank,
                        .direct = direct};

}  // namespace distwrap::chaos
