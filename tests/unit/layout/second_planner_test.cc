// The planner against a second one, on random meshes, shapes and layouts.
//
// SECOND_PLANNER_ROUNDS: so many of them; else a sample.
#include "unit/layout/second_planner.h"

#include "distwrap/plan.h"
#include "unit/layout/simulated_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace distwrap::layout {
namespace {

using Data = SecondPlanner::Data;

Parts parts_of(const Data& data) {
  Parts parts;
  for (const auto& values : data) {
    parts.emplace_back();
    for (const double value : values)
      if (value != SecondPlanner::kNone) parts.back().push_back(value);
  }
  return parts;
}

// The parts as data of ranks that hold the elements of `like`.
std::optional<Data> data_of(const Parts& parts, const Data& like) {
  Data data = like;
  for (size_t rank = 0; rank < data.size(); ++rank) {
    size_t next = 0;
    for (double& value : data[rank])
      if (value != SecondPlanner::kNone) {
        if (next == parts[rank].size()) return std::nullopt;
        value = parts[rank][next++];
      }
    if (next != parts[rank].size()) return std::nullopt;
  }
  return data;
}

struct Seen {
  int plans = 0, cheaper = 0;
};

void compare(std::mt19937& random, Seen& seen) {
  const std::vector<std::vector<int64_t>> meshes = {
      {2}, {3}, {4}, {2, 2}, {2, 3}, {3, 2}, {2, 4}, {2, 2, 2}, {2, 3, 2}};
  const std::vector<int64_t>& sizes = meshes[random() % meshes.size()];
  int64_t ranks = 1;
  for (const int64_t size : sizes) ranks *= size;
  const bool is_even = random() % 2 == 0;
  std::vector<int64_t> shape(1 + random() % (is_even ? 2 : 3));
  for (int64_t& extent : shape)
    extent = !is_even          ? static_cast<int64_t>(random() % 8)
             : 12 % ranks == 0 ? 12
                               : ranks;
  constexpr PartialOp kOps[] = {PartialOp::kSum, PartialOp::kSum,
                                PartialOp::kAvg, PartialOp::kMax};
  const PartialOp op = kOps[random() % 4];
  const SecondPlanner second(sizes, shape, op);
  const Placing from = second.random(random, true);
  const Placing to = second.random(random, op == PartialOp::kSum);
  const Data given = second.random_data(from, random);
  const auto whole = second.gathered(from, given);
  ASSERT_TRUE(whole.has_value());
  const bool is_partial = !from.partial.empty() || !to.partial.empty();
  const Layout &src = second.layout(from), &dst = second.layout(to);
  SCOPED_TRACE(src.text() + " to " + dst.text());

  const auto plan_by = [&](PlanMode mode) {
    return make_plan(shape, 8, src, dst,
                     {.mode = mode, .cap_bytes = int64_t{1} << 40});
  };
  // A reduction, an exchange and a gather, or as many as PyTorch's steps.
  const auto pytorch = plan_by(PlanMode::kPyTorch);
  ASSERT_TRUE(pytorch.ok()) << pytorch.status();
  const int collectives =
      (*pytorch)->diverged() ? 3 : std::max(3, (*pytorch)->collectives());
  Data rewritten;
  std::optional<int64_t> bound;
  for (const PlanMode mode :
       {PlanMode::kFewestBytes, PlanMode::kFastest, PlanMode::kPyTorch}) {
    const auto plan = plan_by(mode);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ++seen.plans;
    SCOPED_TRACE((*plan)->text());
    const Parts made = run(**plan, parts_of(given));
    const Data sliced = second.sliced(to, *whole);
    if (to.partial.empty()) {
      ASSERT_EQ(made, parts_of(sliced));
    } else {
      const auto held = data_of(made, sliced);
      ASSERT_TRUE(held.has_value());
      ASSERT_EQ(second.gathered(to, *held), whole);
    }
    if (mode != PlanMode::kFewestBytes) continue;
    if (!is_partial) {
      ASSERT_EQ((*plan)->received(), second.lacking(from, to));
      ASSERT_EQ((*plan)->floor(), second.lacking(from, to));
    }
    ASSERT_LE((*plan)->collectives(), collectives);
    bound = second.cheapest(from, to, given, collectives, &rewritten);
    if (!bound.has_value()) continue;
    ASSERT_LE((*plan)->received(), *bound);
    if ((*plan)->received() < *bound) ++seen.cheaper;
  }
  if (!bound.has_value())
    bound = second.cheapest(from, to, given, 99, &rewritten);
  ASSERT_TRUE(bound.has_value());
  ASSERT_EQ(second.gathered(to, rewritten), whole);
}

TEST(SecondPlanner, AgreesAndIsNeverCheaper) {
  const char* const all = std::getenv("SECOND_PLANNER_ROUNDS");
  const int rounds = all == nullptr ? 400 : std::atoi(all);
  Seen seen;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::mt19937 random(static_cast<uint32_t>(round));
    compare(random, seen);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  EXPECT_EQ(seen.plans, 3 * rounds);
  // Some rows of rewrites receive more.
  EXPECT_GT(seen.cheaper, rounds / 20);
}

}  // namespace
}  // namespace distwrap::layout
