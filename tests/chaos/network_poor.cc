// The network loses packets, or carries little: results are right, and up to a
// loss of 5 % no rank counts as lost. A job would hardly start with a loss of
// 20 %, so that comes behind the start.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

namespace distwrap::chaos {
namespace {

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    constexpr int64_t kBytes[] = {16, 4 << 10, 32 << 10};
    call = draw_call(draw, setting.ranks, draw.one_of(kBytes));
    constexpr int kLosses[] = {0, 1, 5, 20};
    percent = draw.one_of(kLosses);
  }
  bool is_bad() const { return percent > 5; }
  // TCP waits for seconds where it loses several packets in a row.
  uint64_t rounds() const { return is_bad() ? 2 : 10; }
  Call call;
  int percent;  // 0: little bandwidth instead
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat(plan.percent == 0
                          ? std::string("a cable of 1 Mbit/s")
                          : absl::StrCat("a loss of ", plan.percent, " %"),
                      ", ", plan.rounds(), " rounds of ", plan.call.text());
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  Performer performer(session->world());
  self.page.ready.store(true);
  while (self.ledger.go.load() == 0) sleep_for(absl::Milliseconds(1));
  absl::Status status;
  for (uint64_t round = 0; round < plan.rounds() && status.ok(); ++round) {
    status = performer.perform(plan.call, round);
    if (status.ok()) self.page.rounds.store(round + 1);
  }
  if (!performer.wrong().empty()) self.complain(performer.wrong());
  if (!status.ok()) tell(self.page, 0, status, 0, Deadline::now_ns());
  if (const absl::Status closed = destroy_process_group(); !closed.ok())
    self.complain(absl::StrCat("close: ", closed.ToString()));
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  const auto begin = [&] {
    job.hosts().cable().set_faults(
        {.loss = plan.percent / 100.0,
         .bytes_a_second = plan.percent == 0 ? 125'000 : 0});
  };
  if (!plan.is_bad()) begin();
  if (!job.wait_until([&] { return job.all_ready(); })) return;
  begin();
  job.ledger().go.store(1);
  if (!job.wait_for_all()) return;
  for (int rank = 0; rank < setting.ranks; ++rank) {
    const RankPage& page = job.page(rank);
    if (page.rounds.load() == plan.rounds()) continue;
    if (plan.is_bad() && page.news[0].is_there() &&
        page.news[0].reason == Reason::kPeerLost)
      continue;
    findings.bad(absl::StrCat("rank ", rank, " came to round ",
                              page.rounds.load(), ": ", page.news[0].text));
  }
}

// A few losses in a row hold a rank back at the start for longer than the 5 s
// after which the others name it.
bool may_print(absl::string_view line) {
  return absl::StrContains(line, " waits in \"");
}

}  // namespace

const Case kNetworkPoor = {.name = "F7",
                           .what = "the network loses packets, or is slow",
                           .full = 60,
                           .on_cable = true,
                           .plan = plan,
                           .rank = rank,
                           .direct = direct,
                           .may_print = may_print};

}  // namespace distwrap::chaos
