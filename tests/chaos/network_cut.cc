// A host is cut off, both ways, one way, or at the store's port only, while
// ranks are in a collective or do nothing. Every rank gets an error at the
// heartbeat: the others name a rank of that host, its ranks one of the others.
#include "chaos/call.h"
#include "chaos/cases.h"

#include <absl/strings/str_cat.h>

#include <cstdlib>

namespace distwrap::chaos {
namespace {

using hosts_test::Cable;

constexpr int kHeartbeatsMs[] = {500, 1000};

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    constexpr int64_t kBytes[] = {16, 32 << 10, 1 << 20};
    call = draw_call(draw, setting.ranks, draw.one_of(kBytes));
    host = draw.below(setting.hosts);
    constexpr Cable::Way kWays[] = {Cable::Way::kBoth, Cable::Way::kFrom,
                                    Cable::Way::kTo};
    way = draw.one_of(kWays);
    port_only = draw.below(4) == 0;
    idle = draw.below(4) == 0;
    heartbeat = draw.below(2);
    after_ms = 20 + draw.below(200);
  }
  int heartbeat_ms() const { return kHeartbeatsMs[heartbeat]; }
  Call call;
  int host;
  Cable::Way way;
  bool port_only, idle;
  int heartbeat, after_ms;
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  const char* const kWays[] = {"both ways", "from it", "to it"};
  return absl::StrCat(
      "host ", plan.host, " is cut off ", kWays[static_cast<int>(plan.way)],
      plan.port_only ? " at the store's port" : "", " after ", plan.after_ms,
      " ms of ", plan.idle ? "silence behind " : "", plan.call.text(),
      ", heartbeat ", plan.heartbeat_ms(), " ms");
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  setenv("DISTWRAP_HEARTBEAT",
         absl::StrCat(plan.heartbeat_ms() / 1000.0).c_str(), 1);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  perform_until_loss(self, *session, plan.call, [&](uint64_t round) {
    // The last call of an idle rank finds what has happened meanwhile.
    if (!plan.idle || round != 1) return;
    self.page.ready.store(true);
    while (self.ledger.go.load() == 0) sleep_for(absl::Milliseconds(1));
    self.page.entered_ns[0].store(Deadline::now_ns());
  });
}

void direct(const Setting& setting, Job& job, Findings& findings) {
  const Plan plan(setting);
  if (!job.wait_until([&] { return job.all_ready(); })) return;
  sleep_for(absl::Milliseconds(plan.after_ms));
  const int64_t cut_ns = Deadline::now_ns();
  job.hosts().cable().cut(plan.host, plan.way,
                          plan.port_only ? Job::kStorePort : 0);
  if (plan.idle) {
    sleep_for(absl::Milliseconds(2 * plan.heartbeat_ms()));
    job.ledger().go.store(1);
  }
  if (!job.wait_for_all()) return;
  for (int rank = 0; rank < setting.ranks; ++rank) {
    // One side notices the silence first, and over what still goes the other
    // hears that it has given up.
    expect_lost_host(setting, job, rank, plan.host, findings, true);
    const RankPage& page = job.page(rank);
    if (!page.news[0].is_there()) continue;
    const int64_t from = plan.idle ? page.entered_ns[0].load() : cut_ns;
    findings.took(plan.idle ? 2 : static_cast<size_t>(plan.heartbeat),
                  page.news[0].heard_ns.load() - from);
    findings.took(3, page.took_ns[0].load());
  }
}

constexpr Measure kMeasures[] = {
    {"from the cut to each error, heartbeat 500 ms", absl::Milliseconds(600),
     absl::Milliseconds(600)},
    {"the same, heartbeat 1 s", absl::Milliseconds(1200),
     absl::Milliseconds(1200)},
    {"the error of a call that comes after it", absl::Milliseconds(100),
     absl::Milliseconds(500)},
    {"closing the broken session", absl::Milliseconds(500),
     absl::Milliseconds(500)}};

}  // namespace

const Case kNetworkCut = {.name = "F6",
                          .what = "a host is cut off",
                          .full = 300,
                          .on_cable = true,
                          .measures = kMeasures,
                          .plan = plan,
                          .rank = rank,
                          .direct = direct};

}  // namespace distwrap::chaos
