// Plans against the recorded ones: never more bytes, and the recorded values.
#include "distwrap/plan.h"
#include "distwrap/status.h"
#include "unit/layout/golden.h"
#include "unit/layout/simulated_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

namespace distwrap::layout {
namespace {

constexpr PlanMode kModes[] = {PlanMode::kFastest, PlanMode::kFewestBytes,
                               PlanMode::kPyTorch};

// The fewest bytes of the recorded plans, and the most collectives.
struct Recorded {
  int64_t received = std::numeric_limits<int64_t>::max();
  int collectives = 0;
};

Recorded recorded(const Json& record) {
  Recorded best;
  for (const char* name : {"greedy", "graph"}) {
    if (!record.contains(name) || !record.at(name).contains("recv")) continue;
    const Json& plan = record.at(name);
    best.received = std::min(best.received, plan.at("recv").get<int64_t>());
    const char* const list = plan.contains("issued") ? "issued" : "collectives";
    best.collectives =
        std::max(best.collectives, static_cast<int>(plan.at(list).size()));
  }
  return best;
}

std::vector<double> whole_of(const Json& record,
                             absl::Span<const int64_t> shape) {
  std::vector<double> whole;
  if (record.contains("full")) {
    for (const Json& one : record.at("full"))
      whole.push_back(one.get<double>());
    return whole;
  }
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  for (int64_t i = 0; i < count; ++i) whole.push_back(static_cast<double>(i));
  return whole;
}

void expect_equal(const Parts& got, const Parts& expected, bool truncates) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t rank = 0; rank < got.size(); ++rank) {
    ASSERT_EQ(got[rank].size(), expected[rank].size()) << "rank " << rank;
    for (size_t i = 0; i < got[rank].size(); ++i)
      ASSERT_NEAR(truncates ? std::trunc(got[rank][i]) : got[rank][i],
                  expected[rank][i], 1e-5)
          << "rank " << rank << " element " << i;
  }
}

// P(x) to P(y), and S to other partials than sums, which PyTorch makes by
// several steps.
bool is_refused(const absl::Status& status) {
  const auto info = error_info(status);
  return info && info->reason == Reason::kPartialTarget;
}

TEST(PlanGolden, DeliversTheRecordedValues) {
  int records = 0, refused = 0;
  each_record("redistribute.jsonl", [&](const Json& record) {
    const std::vector<int64_t> shape = numbers(record.at("shape"));
    if (record.contains("error")) {
      ++refused;
      return;
    }
    const Layout* const src = layout_of(record, "src");
    const Layout* const dst = layout_of(record, "dst");
    ASSERT_TRUE(src != nullptr && dst != nullptr);
    const Parts given = record.contains("src_local")
                            ? unpacked(record.at("src_local"))
                            : cut(whole_of(record, shape), *src, shape);
    const Parts wanted = unpacked(record.at("dst_local"));
    const bool truncates = record.at("dtype").get<std::string>()[0] == 'i';
    for (const PlanMode mode : kModes) {
      const auto plan = make_plan(shape, 4, *src, *dst, {.mode = mode});
      if (is_refused(plan.status())) {
        ++refused;
        return;
      }
      ASSERT_TRUE(plan.ok()) << plan.status();
      SCOPED_TRACE((*plan)->text());
      const Parts got = run(**plan, given);
      if (dst->is_partial()) {
        ASSERT_EQ(joined(got, *dst, shape), joined(wanted, *dst, shape));
      } else {
        expect_equal(got, wanted, truncates);
      }
    }
    ++records;
  });
  EXPECT_EQ(records + refused, 3278);
  EXPECT_GT(records, 3150);
}

TEST(PlanGolden, ReceivesNoMoreThanTheRecordedPlans) {
  int records = 0;
  for (const char* file : {"redistribute.jsonl", "plans.jsonl"})
    each_record(file, [&](const Json& record) {
      if (record.contains("error")) return;
      const Layout* const src = layout_of(record, "src");
      const Layout* const dst = layout_of(record, "dst");
      const Recorded best = recorded(record);
      const auto plan = make_plan(
          numbers(record.at("shape")), 4, *src, *dst,
          {.mode = PlanMode::kFewestBytes, .cap_bytes = int64_t{1} << 40});
      if (is_refused(plan.status())) return;
      ASSERT_TRUE(plan.ok()) << plan.status();
      SCOPED_TRACE((*plan)->text());
      ASSERT_LE((*plan)->received(), best.received);
      if (record.contains("floor")) {
        ASSERT_EQ((*plan)->received(), record.at("floor").get<int64_t>());
      }
      // Reductions, and one exchange or gather.
      ASSERT_LE((*plan)->collectives(), src->is_partial() ? 3 : 1);
      // More collectives only pay where they save bytes.
      if ((*plan)->collectives() > best.collectives) {
        ASSERT_LT((*plan)->received(), best.received);
      }
      ++records;
    });
  EXPECT_GT(records, 3870);
}

TEST(PlanGolden, RefusesWhatIsMeaningless) {
  const MeshShape mesh{{2, 2}};
  const std::pair<const char*, const char*> cases[] = {
      {"P(sum),R", "P(avg),R"}, {"P(max),R", "P(sum),R"},
      {"S(0),R", "P(max),R"},   {"R,R", "P(product),R"},
      {"R,R", "P(bor),R"},      {"S(0),R", "P(avg),R"},
  };
  for (const auto& [from, to] : cases) {
    const auto plan = make_plan({4, 4}, 4, **Layout::parse(mesh, from),
                                **Layout::parse(mesh, to));
    ASSERT_FALSE(plan.ok()) << from << " " << to;
    EXPECT_EQ(error_info(plan.status())->reason, Reason::kPartialTarget);
  }
}

// The steps that PyTorch takes, where it was recorded to take them.
TEST(PlanGolden, FollowsPyTorchWhereAsked) {
  int followed = 0, different = 0;
  each_record("redistribute.jsonl", [&](const Json& record) {
    if (record.contains("error") || !record.contains("greedy")) return;
    // PyTorch takes strided cuts as a reversed order of axes.
    if (record.at("src").dump().find("SS") != std::string::npos ||
        record.at("dst").dump().find("SS") != std::string::npos)
      return;
    const Layout* const src = layout_of(record, "src");
    const Layout* const dst = layout_of(record, "dst");
    if (dst->is_partial()) return;
    const auto plan = make_plan(numbers(record.at("shape")), 4, *src, *dst,
                                {.mode = PlanMode::kPyTorch});
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Json& steps = record.at("greedy").at("steps");
    if ((*plan)->diverged()) {
      ++different;
      return;
    }
    ASSERT_EQ((*plan)->steps().size(), steps.size()) << (*plan)->text();
    for (size_t i = 0; i < steps.size(); ++i) {
      const size_t axis = steps.at(i).at(0).at(0).get<size_t>();
      const PlanStep& step = (*plan)->steps()[i];
      if (!step.axes.empty()) {
        ASSERT_EQ(step.axes, std::vector<int>{static_cast<int>(axis)});
      }
      ASSERT_EQ(placement_text(step.to->placements()[axis]),
                steps.at(i).at(2).get<std::string>());
    }
    ++followed;
  });
  EXPECT_GT(followed, 2500);
  EXPECT_LT(different, followed / 50);
}

}  // namespace
}  // namespace distwrap::layout
