// Ranks that fork while their threads work: the child's calls are refused, and
// it ends at once, by exit, by another program, or as a daemon; the parent
// works on. One rank may leave by exit() with everything open, and the others
// learn of it.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace distwrap::chaos {
namespace {

enum class Way : uint8_t { kExit, kQuickExit, kProgram, kDaemon };
constexpr const char* kWays[] = {"exit()", "_exit()", "another program",
                                 "a daemon"};
constexpr int kForks = 3;
constexpr absl::Duration kLimit = absl::Milliseconds(500);

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    forker = draw.below(setting.ranks);
    for (Way& way : ways) way = static_cast<Way>(draw.below(4));
    by_worker = draw.coin();
    leaves = draw.coin();
    call = draw_call(draw, setting.ranks, 32 << 10);
    delay = absl::Microseconds(draw.below(3000));
  }
  int forker;
  Way ways[kForks];
  bool by_worker;  // whether the calling thread forks, or another one
  bool leaves;     // whether the rank calls exit() at the end, within its work
  Call call;
  absl::Duration delay;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  std::string text = absl::StrCat(
      "rank ", plan.forker, " forks in ", plan.call.text(),
      plan.by_worker ? "," : ", in another thread,", " children end by ");
  for (const Way way : plan.ways)
    absl::StrAppend(&text, kWays[static_cast<size_t>(way)], ", ");
  return absl::StrCat(text, plan.leaves ? "then it exits" : "then all end");
}

// The body of a child; it prints nothing.
[[noreturn]] void be_child(const Self& self, Way way) {
  int32_t x = 0;
  const absl::Status refused =
      all_reduce(TensorView(&x, 1), ReduceOp::kSum).status();
  if (error_reason(refused) != Reason::kForkedChild)
    self.complain(absl::StrCat("a child: ", refused.ToString()));
  const absl::Status ended = destroy_process_group();
  if (error_reason(ended) != Reason::kForkedChild)
    self.complain(absl::StrCat("the end of a child: ", ended.ToString()));
  if (way == Way::kProgram) {
    execl("/bin/true", "true", nullptr);
    _exit(3);
  }
  if (way == Way::kQuickExit) _exit(0);
  if (way == Way::kDaemon) {
    setsid();
    const pid_t daemon = fork();
    if (daemon > 0) {
      int status = -1;
      waitpid(daemon, &status, 0);
      _exit(status == 0 ? 0 : 4);
    }
  }
  std::exit(0);
}

void fork_once(const Self& self, Way way) {
  const int64_t began = Deadline::now_ns();
  const pid_t child = fork();
  if (child == 0) be_child(self, way);
  // A child that hangs is killed with the try.
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0) self.complain(absl::StrCat("a child ended with ", status));
  std::atomic<int64_t>& most = self.page.took_ns[0];
  most.store(std::max(most.load(), Deadline::now_ns() - began));
}

// Forks while this thread makes calls.
void fork_beside(const Self& self, const Plan& plan,
                 std::atomic<bool>& is_over) {
  for (const Way way : plan.ways) {
    sleep_for(plan.delay);
    fork_once(self, way);
  }
  is_over.store(true);
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  // The session is started by a thread that has ended when it is used.
  absl::StatusOr<Session> session;
  std::thread([&] {
    session = self.join();
    bind_session({});
  }).join();
  if (!session.ok()) return;
  Performer performer(session->world());
  const bool forks = self.rank == plan.forker;
  std::atomic<bool> is_over{!forks};
  std::thread beside;
  if (forks && !plan.by_worker)
    beside = std::thread([&] { fork_beside(self, plan, is_over); });
  absl::Status status;
  int32_t go_on = 1;
  for (uint64_t round = 0; status.ok() && go_on != 0; ++round) {
    status = performer.perform(plan.call, round);
    if (forks && plan.by_worker) {
      if (round < kForks) fork_once(self, plan.ways[round]);
      is_over.store(round >= kForks);
    }
    // Continues until the forking rank has finished.
    go_on = is_over.load() ? 0 : 1;
    if (status.ok())
      status = all_reduce(TensorView(&go_on, 1), ReduceOp::kMax).status();
  }
  if (!status.ok()) self.complain(absl::StrCat("work: ", status.ToString()));
  if (beside.joinable()) beside.join();
  if (!performer.wrong().empty()) self.complain(performer.wrong());
  if (!plan.leaves) {
    const absl::Status closed = destroy_process_group();
    if (!closed.ok()) self.complain(absl::StrCat("close: ", closed.ToString()));
    return;
  }
  if (forks) {
    std::thread([] { barrier().IgnoreError(); }).detach();
    sleep_for(plan.delay);
    self.ledger.struck_ns.store(Deadline::now_ns());
    std::exit(0);
  }
  // A receive whose message is never sent.
  int32_t never = 0;
  const int next = (self.rank + 1) % self.setting.ranks;
  status = recv(TensorView(&never, 1), Peer::group(next)).status();
  tell(self.page, 0, status, 0, Deadline::now_ns());
  const absl::Status closed = destroy_process_group();
  if (!closed.ok()) self.complain(absl::StrCat("close: ", closed.ToString()));
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  // The forking rank's own end, as its parent sees it.
  if (plan.leaves &&
      job.wait_until([&] { return job.end_of(plan.forker) >= 0; })) {
    const int64_t struck = job.ledger().struck_ns.load();
    findings.took(1, Deadline::now_ns() - struck);
    if (!job.wait_for_all()) return;
    for (int rank = 0; rank < setting.ranks; ++rank) {
      if (rank == plan.forker) continue;
      expect_news(job, rank, 0, Reason::kPeerLost, bit(plan.forker), findings);
      findings.took(2, job.page(rank).news[0].heard_ns.load() - struck);
    }
  }
  if (!job.wait_for_all()) return;
  findings.took(0, job.page(plan.forker).took_ns[0].load());
}

constexpr Measure kMeasures[] = {
    {"the whole life of a child", kLimit, kLimit},
    {"from exit() to the end of the process", kLimit, kLimit},
    {"from exit() to the error of each other rank", absl::Milliseconds(600),
     absl::Seconds(1)}};

}  // namespace

const Case kForked = {.name = "F19",
                      .what = "ranks fork, and leave by exit()",
                      .full = 500,
                      .only_plain = true,
                      .measures = kMeasures,
                      .plan = plan,
                      .rank = rank,
                      .direct = direct};

}  // namespace distwrap::chaos
