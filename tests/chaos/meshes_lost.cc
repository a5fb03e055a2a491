// A rank is killed or stopped inside a step of a redistribution: every other
// rank of the mesh learns at once which rank has gone, also a rank that shares
// no group of that step with it. Nothing is written outside of the targets.
#include "chaos/cases.h"
#include "distwrap/redistribute.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distwrap::chaos {
namespace {

constexpr float kGuard = -7;

struct Plan {
  struct Texts {
    const char *from, *to;
  };
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    const int n = setting.ranks;
    mesh.sizes = n % 2 == 0 ? std::vector<int64_t>{2, n / 2}
                            : std::vector<int64_t>{n, 1};
    // Reductions, exchanges and gathers of one axis and of both.
    constexpr Texts kPairs[] = {{"P,S(0)", "S(0),S(0)"},
                                {"P,S(0)", "S(1),S(1)"},
                                {"P,P", "R,R"},
                                {"P,S(0)", "R,R"},
                                {"S(0),S(1)", "S(1),S(0)"},
                                {"S(0),S(1)", "R,S(0)"},
                                {"S(0),P", "S(1),R"},
                                {"S(1),S(1)", "R,R"}};
    pair = draw.one_of(kPairs);
    constexpr int64_t kRows[] = {16, 256, 1024};
    rows = draw.one_of(kRows);
    cap_bytes = draw.below(3) == 0 ? 4096 : int64_t{16} << 20;
    victim = draw.below(n);
    round = static_cast<uint64_t>(2 + draw.below(4));
    part = 1.2 * draw.part();
    waits = draw.coin();
    stops = draw.coin();
    from = *Layout::parse(mesh, pair.from);
    to = *Layout::parse(mesh, pair.to);
    std::vector<std::string> steps;
    const PlanRef made = *make_plan(shape(), sizeof(float), *from, *to,
                                    {.cap_bytes = cap_bytes});
    for (size_t i = 0; i < made->steps().size(); ++i)
      if (!made->steps()[i].axes.empty())
        steps.push_back(absl::StrCat(" ", i + 1, "/", made->steps().size()));
    step =
        steps[static_cast<size_t>(draw.below(static_cast<int>(steps.size())))];
  }
  std::vector<int64_t> shape() const { return {rows, 60}; }

  MeshShape mesh;
  Texts pair;
  const Layout *from, *to;
  int64_t rows, cap_bytes;
  int victim;
  uint64_t round;
  std::string step;  // the end of its label: " 1/2"
  double part;       // part of the step's time
  bool waits;        // no asynchronous redistributions
  bool stops;        // false: the victim is killed
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  return absl::StrCat("rank ", plan.victim,
                      plan.stops ? " is stopped after " : " is killed after ",
                      static_cast<int>(plan.part * 100), " % of step",
                      plan.step, " of round ", plan.round, " of ",
                      plan.from->text(), " to ", plan.to->text(), ", ",
                      plan.rows, " rows, at most ", plan.cap_bytes,
                      " bytes between", plan.waits ? "" : ", asynchronous");
}

// This rank's parts, and the redistribution of them.
class Mover {
 public:
  Mover(const Self& self, const Plan& plan) : self_(self), plan_(plan) {}

  absl::Status begin() {
    absl::StatusOr<DeviceMesh> made = DeviceMesh::create(plan_.mesh);
    if (!made.ok()) return made.status();
    mesh_ = *std::move(made);
    for (size_t a = 0; a < plan_.mesh.sizes.size(); ++a)
      if (plan_.from->placements()[a].kind == Placement::Kind::kPartial)
        parts_ *= static_cast<float>(plan_.mesh.sizes[a]);
    in_.resize(places(*plan_.from).size());
    out_.assign(places(*plan_.to).size() + 2, kGuard);
    return absl::OkStatus();
  }

  absl::Status perform(uint64_t round) {
    const std::vector<int64_t> given = places(*plan_.from),
                               wanted = places(*plan_.to);
    for (size_t i = 0; i < in_.size(); ++i) in_[i] = value(given[i], round);
    before_ = in_;
    const TensorView out(out_.data() + 1,
                         static_cast<int64_t>(out_.size()) - 2);
    const RedistributeOptions options = {.cap_bytes = plan_.cap_bytes};
    absl::Status status;
    if (plan_.waits) {
      status = redistribute(mesh_, out, *plan_.to, TensorView(in_), *plan_.from,
                            plan_.shape(), options);
    } else {
      const absl::StatusOr<Work> work =
          redistribute_async(mesh_, out, *plan_.to, TensorView(in_),
                             *plan_.from, plan_.shape(), options);
      status = work.ok() ? work->wait() : work.status();
    }
    look();
    for (size_t i = 0; status.ok() && i < wanted.size(); ++i)
      if (out_[i + 1] != value(wanted[i], round) * parts_) {
        self_.complain(absl::StrCat("element ", i, " of round ", round, " is ",
                                    out_[i + 1]));
        break;
      }
    return status;
  }

  // The sources are as they were, and so is what lies around the target.
  void look() const {
    if (in_ != before_) self_.complain("a source was written");
    if (out_.front() != kGuard || out_.back() != kGuard)
      self_.complain("something was written beside a target");
  }

  // The groups of the steps, which the first round has made.
  std::vector<Group> groups() const {
    std::vector<Group> all;
    const PlanRef plan = *make_plan(plan_.shape(), sizeof(float), *plan_.from,
                                    *plan_.to, {.cap_bytes = plan_.cap_bytes});
    for (const PlanStep& step : plan->steps()) {
      if (step.axes.empty()) continue;
      const absl::StatusOr<Group> group = mesh_.group_along(step.axes);
      if (!group.ok())
        self_.complain(group.status().ToString());
      else if (std::find(all.begin(), all.end(), *group) == all.end())
        all.push_back(*group);
    }
    return all;
  }

 private:
  static float value(int64_t place, uint64_t round) {
    return static_cast<float>(place + static_cast<int64_t>(round));
  }
  // The flat indices of this rank's part.
  std::vector<int64_t> places(const Layout& layout) const {
    const std::vector<int64_t> shape = plan_.shape();
    const std::vector<int64_t> rows = *layout.indices(shape, self_.rank, 0),
                               columns = *layout.indices(shape, self_.rank, 1);
    std::vector<int64_t> all;
    for (const int64_t row : rows)
      for (const int64_t column : columns)
        all.push_back(row * shape[1] + column);
    return all;
  }

  const Self& self_;
  const Plan& plan_;
  DeviceMesh mesh_;
  float parts_ = 1;  // ranks whose parts of a value are added up
  std::vector<float> in_, before_, out_;
};

// Sees the step of the plan in the victim's calls, and strikes within one.
class Striker {
 public:
  Striker(const Self& self, const Plan& plan) : self_(self), plan_(plan) {}

  void watch(const std::vector<Group>& groups) {
    for (const Group& group : groups) {
      absl::StatusOr<Hook> hook = add_hook(
          group, {.pre =
                      [this](const HookedCall& call) {
                        if (absl::EndsWith(call.label, plan_.step)) begin();
                        return absl::OkStatus();
                      },
                  .post =
                      [this](const HookedCall& call, const absl::Status&) {
                        if (absl::EndsWith(call.label, plan_.step))
                          took_ns_ = Deadline::now_ns() - began_ns_;
                      }});
      if (hook.ok())
        hooks_.push_back(*std::move(hook));
      else
        self_.complain(hook.status().ToString());
    }
  }
  void arm() { armed_ = true; }

 private:
  void begin() {
    began_ns_ = Deadline::now_ns();
    if (!std::exchange(armed_, false)) return;
    strike_within(self_, began_ns_, plan_.part, took_ns_,
                  plan_.stops ? SIGSTOP : SIGKILL);
  }

  const Self& self_;
  const Plan& plan_;
  bool armed_ = false;
  int64_t began_ns_ = 0, took_ns_ = 0;
  std::vector<Hook> hooks_;
};

// The error with the culprits as ranks of the world. A rank that is no member
// of the group whose call failed is named in the text.
absl::Status in_world(const Self& self, const absl::Status& status,
                      const std::vector<Group>& groups) {
  std::optional<ErrorInfo> info = error_info(status);
  if (!info.has_value()) return status;
  for (const Group& group : groups)
    if (group.name() == info->group)
      for (int& rank : info->ranks)
        rank = group.global_ranks()[static_cast<size_t>(rank)];
  for (int rank = 0; info->ranks.empty() && rank < self.setting.ranks; ++rank)
    if (absl::StrContains(status.message(),
                          absl::StrCat("rank ", rank, " of the world")))
      info->ranks = {rank};
  return make_error(*info);
}

void rank(const Self& self) {
  const Plan plan(self.setting);
  if (plan.stops) setenv("DISTWRAP_HEARTBEAT", "0.2", 1);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  Mover mover(self, plan);
  Striker striker(self, plan);
  std::vector<Group> groups;
  absl::Status status = mover.begin();
  for (uint64_t round = 0; status.ok(); ++round) {
    if (round == 1) {
      groups = mover.groups();
      if (self.rank == plan.victim) striker.watch(groups);
    }
    if (self.rank == plan.victim && round == plan.round) striker.arm();
    status = mover.perform(round);
    const int64_t ended = Deadline::now_ns();
    if (status.ok())
      self.page.rounds.store(round + 1);
    else
      tell(self.page, 0, in_world(self, status, groups),
           static_cast<int>(round), ended);
  }
  close_broken(self, mover.perform(0));
  while (plan.stops && self.ledger.go.load() == 0)
    sleep_for(absl::Milliseconds(1));
  sleep_for(absl::Milliseconds(20));
  mover.look();
}

// Lets the victim go on when all others have ended.
void resume(const Setting& setting, const Plan& plan, Job& job) {
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
  if (plan.stops) resume(setting, plan, job);
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
    {"closing the broken session", absl::Milliseconds(500),
     absl::Milliseconds(500)},
    // A rank that shares no group with the one that stopped is told by others.
    {"from the stop to each error, heartbeat 200 ms", absl::Milliseconds(240),
     absl::Milliseconds(300)},
    {"closing while one stands still", absl::Milliseconds(500),
     absl::Milliseconds(500)}};

}  // namespace

const Case kMeshesLost = {
    .name = "F29",
    .what = "a rank is killed or stopped inside a step of a redistribution",
    .full = 500,
    .measures = kMeasures,
    .plan = plan,
    .rank = rank,
    .direct = direct,
    .ends_well = ends_well};

}  // namespace distwrap::chaos
