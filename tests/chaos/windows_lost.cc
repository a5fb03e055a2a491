// A rank is killed, or stopped for longer than the heartbeat, while all ranks
// put and signal. Every other rank gets an error, whether it waits for a signal
// or only writes. Signalled data were complete. Memory that a rank brought is
// not written any more after the window's end, not even when the stopped rank
// goes on.
#include "chaos/cases.h"

#include <absl/strings/str_cat.h>

#include <csignal>
#include <cstdlib>
#include <vector>

namespace distwrap::chaos {
namespace {

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    victim = draw.below(setting.ranks);
    round = static_cast<uint64_t>(2 + draw.below(50));
    part = 1.5 * draw.part();
    stops = draw.below(4) == 0;
    brings = draw.coin();
    waits = draw.coin();
    constexpr int64_t kCounts[] = {1, 64, 8192, 131072};
    count = draw.one_of(kCounts);
  }
  int victim;
  uint64_t round;
  double part;  // part of a round's time
  bool stops;   // the rank is stopped instead of killed, and goes on later
  bool brings;  // memory of its own
  bool waits;   // for a signal of the previous rank
  int64_t count;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat("rank ", plan.victim,
                      plan.stops ? " is stopped after " : " is killed after ",
                      static_cast<int>(plan.part * 100), " % of round ",
                      plan.round, " of puts of ", plan.count, " numbers into ",
                      plan.brings ? "memory of the ranks" : "the window's",
                      plan.waits ? ", each waited for" : "");
}

class Performer {
 public:
  Performer(const Self& self, const Plan& plan)
      : self_(self),
        plan_(plan),
        n_(self.setting.ranks),
        own_(static_cast<size_t>(plan.brings ? 2 * plan.count : 0)),
        out_(static_cast<size_t>(plan.count)) {}

  absl::Status begin() {
    WindowOptions options;
    options.dtype = DType::kU64;
    if (plan_.brings)
      options.memory = TensorView(own_);
    else
      options.count = 2 * plan_.count;
    const absl::StatusOr<Window> made = new_window(options);
    if (made.ok()) window_ = *made;
    return made.status();
  }

  // Rounds alternate between the halves of a part, so that data are not
  // overwritten before they are checked.
  absl::Status perform(uint64_t round) {
    const int next = (self_.rank + 1) % n_, before = (self_.rank + n_ - 1) % n_;
    const int64_t at = static_cast<int64_t>(round % 2) * plan_.count;
    std::fill(out_.begin(), out_.end(), value(self_.rank, round));
    absl::Status status = window_
                              .put_signal(TensorView(out_), Peer::group(next),
                                          at, 0, round + 1, SignalHow::kSet)
                              .status();
    if (!status.ok() || !plan_.waits) return status;
    status = window_.wait_signal(0, Compare::kGe, round + 1).status();
    if (!status.ok()) return status;
    const auto* const mine =
        static_cast<const uint64_t*>(window_.memory().data()) + at;
    const uint64_t wanted = value(before, round);
    if (std::any_of(mine, mine + plan_.count,
                    [&](uint64_t found) { return found != wanted; }))
      self_.complain("a signal came before its data");
    // The previous rank may go on.
    status = window_.signal(Peer::group(before)).status();
    return status.ok() ? window_.wait_signal(Peer::group(next)).status()
                       : status;
  }

  void end() {
    if (window_.destroy(absl::Seconds(1)).ok())
      self_.complain("the end of a broken window went well");
    then_ = own_;
  }
  void look_again() const {
    if (own_ != then_) self_.complain("something was written after the end");
  }

 private:
  static uint64_t value(int rank, uint64_t round) {
    return round * 100 + static_cast<uint64_t>(rank) + 1;
  }

  const Self& self_;
  const Plan& plan_;
  const int n_;
  std::vector<uint64_t> own_, then_, out_;
  Window window_;
};

void rank(const Self& self) {
  const Plan plan(self.setting);
  if (plan.stops) setenv("DISTWRAP_HEARTBEAT", "0.2", 1);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  Performer performer(self, plan);
  absl::Status status = performer.begin();
  if (!status.ok()) tell(self.page, 0, status, -1, Deadline::now_ns());
  int64_t took_ns = 0;
  for (uint64_t round = 0; status.ok(); ++round) {
    const int64_t began = Deadline::now_ns();
    if (self.rank == plan.victim && round == plan.round) {
      if (plan.stops)
        self.page.ready.store(true);
      else
        die_within(self, began, plan.part, took_ns);
    }
    status = performer.perform(round);
    const int64_t ended = Deadline::now_ns();
    took_ns = ended - began;
    if (status.ok()) {
      self.page.rounds.store(round + 1);
      continue;
    }
    tell(self.page, 0, status, static_cast<int>(round), ended);
  }
  const int64_t closing = Deadline::now_ns();
  performer.end();
  if (const absl::Status closed = destroy_process_group(); !closed.ok())
    self.complain(absl::StrCat("close: ", closed.ToString()));
  self.page.took_ns[0].store(Deadline::now_ns() - closing);
  while (plan.stops && self.ledger.go.load() == 0)
    sleep_for(absl::Milliseconds(1));
  sleep_for(absl::Milliseconds(20));
  performer.look_again();
}

// Stops the victim in one of its rounds, and lets it go on when all others have
// ended.
void stop(const Setting& setting, const Plan& plan, Job& job) {
  if (!job.wait_until([&] { return job.page(plan.victim).ready.load(); }))
    return;
  sleep_for(absl::Microseconds(1000 * plan.part));
  job.ledger().struck_ns.store(Deadline::now_ns());
  job.signal(plan.victim, SIGSTOP);
  job.wait_until([&] {
    for (int rank = 0; rank < setting.ranks; ++rank)
      if (rank != plan.victim && job.page(rank).took_ns[0].load() == 0)
        return false;
    return true;
  });
  job.signal(plan.victim, SIGCONT);
  sleep_for(absl::Milliseconds(50));
  job.ledger().go.store(1);
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (plan.stops) stop(setting, plan, job);
  if (!job.wait_for_all()) return;
  if (plan.stops)
    expect_stop(job, setting.ranks, plan.victim, findings, 2);
  else
    expect_loss(job, setting.ranks, plan.victim, findings);
}

bool ends_well(const Setting& setting, int rank, int code) {
  const Plan plan(setting);
  const bool dies = rank == plan.victim && !plan.stops;
  return code == (dies ? 128 + SIGKILL : 0);
}

constexpr Measure kMeasures[] = {
    {"from the kill to the error of each other rank", absl::Milliseconds(100),
     absl::Milliseconds(500)},
    {"ending the window and the broken session", absl::Milliseconds(600),
     absl::Milliseconds(700)},
    {"from the stop to each error, heartbeat 200 ms", absl::Milliseconds(240),
     absl::Milliseconds(240)},
    {"ending both while one stands still, given 1 s for the window",
     absl::Milliseconds(1600), absl::Milliseconds(1700)}};

}  // namespace

const Case kWindowsLost = {
    .name = "F27",
    .what = "a rank is killed or stopped whose window others write to",
    .full = 500,
    .measures = kMeasures,
    .plan = plan,
    .rank = rank,
    .direct = direct,
    .ends_well = ends_well};

}  // namespace distwrap::chaos
