// The wall clock steps by an hour, back and forth, while ranks start, work, and
// wait for one that does not come: every deadline is kept.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/str_cat.h>

#include <atomic>
#include <ctime>
#include <thread>

namespace distwrap::chaos {
namespace {

constexpr absl::Duration kDeadline = absl::Milliseconds(300);
constexpr int64_t kHour = 3600;

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    absent = draw.below(setting.ranks);
    every = absl::Milliseconds(1 + draw.below(40));
    is_message = draw.coin();
    is_async = draw.coin();
  }
  int absent;
  absl::Duration every;
  bool is_message, is_async;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat("the clock steps every ",
                      absl::FormatDuration(plan.every), "; rank ", plan.absent,
                      " does not come to a ",
                      plan.is_message ? "message" : "barrier");
}

absl::Status wait_for(const Plan& plan) {
  const OpOptions options{.async = plan.is_async, .timeout = kDeadline};
  int32_t never = 0;
  const absl::StatusOr<Work> work =
      plan.is_message
          ? irecv(TensorView(&never, 1), Peer::group(plan.absent), 0, options)
          : barrier(options);
  return work.ok() ? work->wait() : work.status();
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  // Proves that this process sees the steps.
  const auto far_away = [&] {
    timespec raw;
    const time_t seen = std::time(nullptr);
    clock_gettime(CLOCK_MONOTONIC, &raw);
    return static_cast<int64_t>(seen) - raw.tv_sec;
  };
  const int64_t first = far_away();
  std::atomic<bool> has_stepped{false}, over{false};
  std::thread witness([&] {
    while (!over.load()) {
      if (std::abs(far_away() - first) > kHour / 2) has_stepped.store(true);
      sleep_for(absl::Milliseconds(1));
    }
  });
  const auto check = [&] {
    const absl::StatusOr<Session> session = self.join();
    if (!session.ok()) return;
    Performer performer(session->world());
    for (uint64_t round = 0; round < 20; ++round) {
      const absl::Status status = performer.perform(
          {.kind = Kind::kAllReduce, .count = 1000}, round, absl::Seconds(20));
      if (!status.ok()) return self.complain(status.ToString());
    }
    if (!performer.wrong().empty()) self.complain(performer.wrong());
    // A wait that ends before its operation does.
    if (self.rank != plan.absent) {
      const int64_t began = Deadline::now_ns();
      const absl::Status status = wait_for(plan);
      self.page.took_ns[0].store(Deadline::now_ns() - began);
      tell(self.page, 0, status, 0, Deadline::now_ns());
    } else {
      while (self.ledger.go.load() == 0) sleep_for(absl::Milliseconds(1));
    }
    const absl::Status closed = destroy_process_group();
    if (!closed.ok()) self.complain(absl::StrCat("close: ", closed.ToString()));
  };
  check();
  over.store(true);
  witness.join();
  if (!has_stepped.load()) self.complain("the clock did not step here");
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  int64_t next_ns = 0;
  int step = 0;
  job.wait_until([&] {
    if (Deadline::now_ns() >= next_ns) {
      constexpr int64_t kSteps[] = {kHour, 0, -kHour, 0};
      job.ledger().clock_step_s.store(kSteps[step++ % 4]);
      next_ns = Deadline::now_ns() + absl::ToInt64Nanoseconds(plan.every);
    }
    bool all = true;
    for (int rank = 0; rank < setting.ranks; ++rank)
      all &= rank == plan.absent || job.page(rank).news[0].is_there();
    if (all) job.ledger().go.store(1);
    return false;
  });
  for (int rank = 0; rank < setting.ranks; ++rank) {
    if (rank == plan.absent) continue;
    const News& news = job.page(rank).news[0];
    if (!news.is_there() ||
        (news.reason != Reason::kTimedOut && news.reason != Reason::kAborted))
      findings.bad(absl::StrCat("rank ", rank, ": ", news.text));
    if (news.reason != Reason::kTimedOut) continue;
    const int64_t late =
        job.page(rank).took_ns[0].load() - absl::ToInt64Nanoseconds(kDeadline);
    findings.took(0, late);
    if (late < 0) findings.bad(absl::StrCat("rank ", rank, " gave up early"));
  }
}

constexpr Measure kMeasures[] = {{"from the deadline to the error",
                                  absl::Milliseconds(100),
                                  absl::Milliseconds(100)}};

}  // namespace

const Case kStepped = {.name = "F25",
                       .what = "the clock of the day steps by an hour",
                       .full = 50,
                       .preloads = true,
                       .only_plain = true,
                       .measures = kMeasures,
                       .plan = plan,
                       .rank = rank,
                       .direct = direct};

}  // namespace distwrap::chaos
