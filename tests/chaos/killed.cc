// A rank is killed at any microsecond of a collective: every other rank learns
// at once which rank has gone, lives on, and got no wrong result.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/str_cat.h>

#include <csignal>
#include <cstdlib>

namespace distwrap::chaos {
namespace {

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    constexpr int64_t kBytes[] = {16, 32 << 10, 1 << 20};
    call = draw_call(draw, setting.ranks, draw.one_of(kBytes));
    victim = draw.below(setting.ranks);
    round = static_cast<uint64_t>(2 + draw.below(4));
    part = 1.5 * draw.part();
  }
  Call call;
  int victim;
  uint64_t round;
  double part;  // part of a round's time
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat("rank ", plan.victim, " is killed after ",
                      static_cast<int>(plan.part * 100), " % of round ",
                      plan.round, " of ", plan.call.text());
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  Performer performer(session->world());
  absl::Status status;
  int64_t took_ns = 0;
  for (uint64_t round = 0; status.ok(); ++round) {
    const int64_t began = Deadline::now_ns();
    if (self.rank == plan.victim && round == plan.round)
      die_within(self, began, plan.part, took_ns);
    status = performer.perform(plan.call, round);
    const int64_t ended = Deadline::now_ns();
    took_ns = ended - began;
    if (status.ok()) {
      self.page.rounds.store(round + 1);
      continue;
    }
    tell(self.page, 0, status, static_cast<int>(round), ended);
  }
  if (!performer.wrong().empty()) self.complain(performer.wrong());
  // The survivor lives on.
  close_broken(self, performer.perform(plan.call, 0));
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (job.wait_for_all())
    expect_loss(job, setting.ranks, plan.victim, findings);
}

bool ends_well(const Setting& setting, int rank, int code) {
  return code == (rank == Plan(setting).victim ? 128 + SIGKILL : 0);
}

}  // namespace

const Case kKilled = {.name = "F1",
                      .what = "a rank is killed inside a collective",
                      .full = 2000,
                      .measures = kMeasuresOfLoss,
                      .plan = plan,
                      .rank = rank,
                      .direct = direct,
                      .ends_well = ends_well};

}  // namespace distwrap::chaos
