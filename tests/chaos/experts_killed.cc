// A rank is killed at any microsecond of an exchange of experts: while plans
// are made, in a dispatch or combine, or between the two phases of one. Every
// other rank learns at once which rank has gone, and lives on.
#include "chaos/cases.h"
#include "distwrap/memory.h"
#include "distwrap/moe.h"

#include <absl/strings/str_cat.h>

#include <csignal>
#include <utility>
#include <vector>

namespace distwrap::chaos {
namespace {

struct Plan {
  explicit Plan(const Setting& setting) {
    Draw draw(setting);
    victim = draw.below(setting.ranks);
    round = static_cast<uint64_t>(2 + draw.below(4));
    part = 1.5 * draw.part();
    pauses = draw.coin();
    level = static_cast<MoeDedup>(1 + draw.below(3));
    constexpr int64_t kWidths[] = {1, 512, 16384};
    width = draw.one_of(kWidths);
    allocates = draw.coin();
  }
  int victim;
  uint64_t round;
  double part;  // part of a round's time
  bool pauses;  // between the phases of a dispatch, where the victim dies
  MoeDedup level;
  int64_t width;   // elements of a token
  bool allocates;  // rows in memory of the backend, which others write and read
};

std::string plan(const Setting& setting) {
  const Plan plan(setting);
  constexpr const char* kLevels[] = {"", "none", "rank", "node"};
  return absl::StrCat(
      "rank ", plan.victim, " is killed ",
      plan.pauses
          ? "between start and finish"
          : absl::StrCat("after ", static_cast<int>(plan.part * 100), " %"),
      " of round ", plan.round, ", level ",
      kLevels[static_cast<int>(plan.level)], ", tokens of ", plan.width,
      plan.allocates ? ", in memory of the backend" : "");
}

// A layer of experts: every token wants two of them.
class Layer {
 public:
  Layer(const Self& self, const Plan& plan) : self_(self), plan_(plan) {
    for (int r = 0; r < self.setting.ranks; ++r) node_of_.push_back(r / 2);
    x_.assign(static_cast<size_t>(kTokens * plan.width),
              static_cast<float>(self.rank + 1));
    out_.resize(x_.size());
  }

  // `dies`: between the phases of the dispatch.
  absl::Status perform(uint64_t round, bool dies) {
    const int64_t experts = 2 * self_.setting.ranks;
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < kTokens; ++t)
      for (const int64_t shift : {0, 3})
        ids.push_back(static_cast<int32_t>(
            (t + shift + static_cast<int64_t>(round)) % experts));
    const int64_t slots[] = {kTokens, 2}, tokens[] = {kTokens, plan_.width};
    const absl::StatusOr<MoePlan> made = moe_plan(
        TensorView(ids.data(), slots),
        {.num_experts = experts, .dedup = plan_.level, .node_of = node_of_});
    if (!made.ok()) return made.status();
    const int64_t received[] = {made->recv_rows(), plan_.width};
    const TensorView rows(memory(received[0] * received[1]), received);
    absl::StatusOr<MoePending> started =
        moe_dispatch_start(*made, TensorView(x_.data(), tokens), rows);
    if (!started.ok()) return started.status();
    if (dies) die_at(self_, Deadline::now_ns());
    absl::Status status = started->finish().status();
    if (status.ok())
      status =
          moe_combine(*made, rows, TensorView(out_.data(), tokens)).status();
    return status;
  }

 private:
  // Memory for `count` numbers, of the backend where it has some.
  float* memory(int64_t count) {
    if (plan_.allocates && allocated_.bytes() < count * 4) {
      const absl::StatusOr<MemAllocator> allocator = get_mem_allocator();
      absl::StatusOr<Memory> made =
          allocator.ok() ? allocator->allocate(2 * count * 4)
                         : absl::StatusOr<Memory>(allocator.status());
      if (made.ok()) allocated_ = *std::move(made);
    }
    if (allocated_.bytes() >= count * 4)
      return static_cast<float*>(allocated_.data());
    rows_.resize(static_cast<size_t>(count));
    return rows_.data();
  }

  static constexpr int64_t kTokens = 24;
  const Self& self_;
  const Plan& plan_;
  std::vector<int32_t> node_of_;
  std::vector<float> x_, out_, rows_;
  Memory allocated_;
};

void rank(const Self& self) {
  const Plan plan(self.setting);
  const absl::StatusOr<Session> session = self.join();
  if (!session.ok()) return;
  Layer layer(self, plan);
  absl::Status status;
  int64_t took_ns = 0;
  for (uint64_t round = 0; status.ok(); ++round) {
    const int64_t began = Deadline::now_ns();
    const bool dies = self.rank == plan.victim && round == plan.round;
    if (dies && !plan.pauses) die_within(self, began, plan.part, took_ns);
    status = layer.perform(round, dies && plan.pauses);
    const int64_t ended = Deadline::now_ns();
    took_ns = ended - began;
    if (status.ok()) {
      self.page.rounds.store(round + 1);
      continue;
    }
    tell(self.page, 0, status, static_cast<int>(round), ended);
  }
  close_broken(self, layer.perform(0, false));
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

const Case kExpertsKilled = {
    .name = "F28",
    .what = "a rank is killed inside an exchange of experts",
    .full = 500,
    .measures = kMeasuresOfLoss,
    .plan = plan,
    .rank = rank,
    .direct = direct,
    .ends_well = ends_well};

}  // namespace distwrap::chaos
