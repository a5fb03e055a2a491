// A rank is killed and leaves a child behind, which has all its descriptors or
// all its memory: the others learn of the death just as soon.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/str_cat.h>

#include <csignal>
#include <cstdlib>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace distwrap::chaos {
namespace {

enum class Way : uint8_t { kFork, kVfork, kClone };
constexpr const char* kWays[] = {"fork", "vfork", "clone with its memory"};

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    victim = draw.below(setting.ranks);
    way = static_cast<Way>(draw.below(3));
    is_awaited = draw.coin();
    delay = absl::Microseconds(draw.below(20'000));
  }
  int victim;
  Way way;
  bool is_awaited;  // whether the others wait for it in a barrier
  absl::Duration delay;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat("rank ", plan.victim, " has a child by ",
                      kWays[static_cast<size_t>(plan.way)],
                      " and is killed; the others wait for ",
                      plan.is_awaited ? "it" : "each other");
}

// Uses no C library, whose thread-local data are the parent's.
int idle(void* /*unused*/) {
  for (;;) syscall(SYS_pause);
}

void leave_child(Way way) {
  if (way == Way::kFork) {
    if (fork() == 0) idle(nullptr);
  } else if (way == Way::kVfork) {
    // The thread that does it stands still afterwards.
    std::thread([] {
      if (vfork() == 0) idle(nullptr);
    }).detach();
  } else {
    static std::vector<char> stack(64 << 10);
    clone(idle, stack.data() + stack.size(), CLONE_VM | SIGCHLD, nullptr);
  }
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  Performer performer(session->world());
  const Call call{.kind = Kind::kAllReduce, .count = 100};
  if (const absl::Status status = performer.perform(call, 0); !status.ok())
    return self.complain(status.ToString());
  const bool is_victim = self.rank == plan.victim;
  if (is_victim) {
    leave_child(plan.way);
    self.page.ready.store(true);
    self.wait_for_all_ready();
    die_at(self, Deadline::now_ns() + absl::ToInt64Nanoseconds(plan.delay) + 1);
    sleep_for(absl::Seconds(60));
  }
  self.page.ready.store(true);
  absl::Status status;
  if (plan.is_awaited) {
    status = barrier().status();
  } else {
    int next = (self.rank + 1) % self.setting.ranks;
    if (next == plan.victim) next = (next + 1) % self.setting.ranks;
    int32_t never = 0;
    status = recv(TensorView(&never, 1), Peer::group(next)).status();
  }
  tell(self.page, 0, status, 0, Deadline::now_ns());
  const absl::Status closed = destroy_process_group();
  if (!closed.ok()) self.complain(absl::StrCat("close: ", closed.ToString()));
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (!job.wait_for_all()) return;
  const int64_t struck = job.ledger().struck_ns.load();
  for (int rank = 0; rank < setting.ranks; ++rank) {
    if (rank == plan.victim) continue;
    expect_news(job, rank, 0, Reason::kPeerLost, bit(plan.victim), findings);
    findings.took(plan.way == Way::kFork ? 0 : 1,
                  job.page(rank).news[0].heard_ns.load() - struck);
  }
}

bool ends_well(const Setting& setting, int rank, int code) {
  return code == (rank == Plan(setting).victim ? 128 + SIGKILL : 0);
}

constexpr Measure kMeasures[] = {
    {"from the kill to each error, a forked child left",
     absl::Milliseconds(100), absl::Milliseconds(500)},
    {"the same, a vforked or cloned one", absl::Milliseconds(100),
     absl::Seconds(5)}};

}  // namespace

const Case kLeftChild = {.name = "F3",
                         .what = "a rank is killed and leaves a child behind",
                         .full = 200,
                         .only_plain = true,
                         .measures = kMeasures,
                         .plan = plan,
                         .rank = rank,
                         .direct = direct,
                         .ends_well = ends_well};

}  // namespace distwrap::chaos
