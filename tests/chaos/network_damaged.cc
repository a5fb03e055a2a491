// While a job starts, a host is cut off after some bytes, or a byte of a
// control connection changes: every rank starts and works, or has a named
// error. Only control connections notice a changed byte, so only they have one.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdlib>

namespace distwrap::chaos {
namespace {

constexpr uint64_t kRounds = 20;
constexpr absl::Duration kStart = absl::Seconds(4);

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    host = draw.below(setting.hosts);
    flips = draw.coin();
    // Most of them within the first messages.
    bytes = draw.below(draw.coin() ? 600 : 8192);
  }
  int host;
  bool flips;
  int64_t bytes;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat(plan.flips ? "a byte of a control connection changes"
                                 : "the cable breaks",
                      " at host ", plan.host, " after ", plan.bytes, " bytes");
}

void rank(const Self& self) {
  setenv("DISTWRAP_HEARTBEAT", "0.5", 1);
  InitOptions options = self.options();
  options.init_timeout = kStart;
  const int64_t began = Deadline::now_ns();
  const absl::StatusOr<Session> session = init_process_group(options);
  if (!session.ok()) {
    tell(self.page, 0, session.status(), 0, Deadline::now_ns());
    self.page.took_ns[0].store(Deadline::now_ns() - began);
    return;
  }
  Performer performer(session->world());
  const Call call = {.kind = Kind::kAllReduce, .count = 100};
  absl::Status status;
  for (uint64_t round = 0; round < kRounds && status.ok(); ++round) {
    status = performer.perform(call, round);
    if (status.ok()) self.page.rounds.store(round + 1);
  }
  if (!performer.wrong().empty()) self.complain(performer.wrong());
  if (!status.ok()) tell(self.page, 0, status, 1, Deadline::now_ns());
  if (const absl::Status closed = destroy_process_group(); !closed.ok())
    self.complain(absl::StrCat("close: ", closed.ToString()));
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (plan.flips)
    job.hosts().cable().flip_after(plan.host, plan.bytes, Job::kStorePort);
  else
    job.hosts().cable().cut_after(plan.host, plan.bytes);
  if (!job.wait_for_all()) return;
  constexpr Reason kNamed[] = {Reason::kStoreUnreachable, Reason::kAuthFailed,
                               Reason::kTimedOut,         Reason::kRefused,
                               Reason::kPeerLost,         Reason::kAborted};
  for (int rank = 0; rank < setting.ranks; ++rank) {
    const RankPage& page = job.page(rank);
    if (page.took_ns[0].load() != 0)
      findings.took(0,
                    page.took_ns[0].load() - absl::ToInt64Nanoseconds(kStart));
    if (page.rounds.load() == kRounds) continue;
    const News& news = page.news[0];
    if (!news.is_there() ||
        std::count(std::begin(kNamed), std::end(kNamed), news.reason) == 0)
      findings.bad(absl::StrCat("rank ", rank, " came to round ",
                                page.rounds.load(), ": ", news.text));
  }
}

constexpr Measure kMeasures[] = {{"the error of a start beyond its deadline",
                                  absl::Milliseconds(100),
                                  absl::Milliseconds(100)}};

}  // namespace

const Case kNetworkDamaged = {
    .name = "F8",
    .what = "a cable breaks, or a byte changes, while a job starts",
    .full = 5000,
    .on_cable = true,
    .measures = kMeasures,
    .plan = plan,
    .rank = rank,
    .direct = direct};

}  // namespace distwrap::chaos
