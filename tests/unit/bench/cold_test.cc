#include "bench/cold.h"

#include "bench/measure.h"
#include "fake_contestant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

namespace distwrap::bench {
namespace {

class Counting final : public Evictor {
 public:
  explicit Counting(const FakeContestant& fake)
      : Evictor(1 << 16), fake_(fake) {}
  void evict() override {
    ++times;
    calls_at.push_back(fake_.calls());
    Evictor::evict();
  }
  int times = 0;
  std::vector<int64_t> calls_at;

 private:
  const FakeContestant& fake_;
};

Spec spec_of(int64_t bytes) {
  Spec spec;
  spec.op = Operation::kScan;
  spec.bytes = bytes;
  return spec;
}

TEST(Cold, CachesAreEmptiedBeforeEveryTimedCall) {
  Behaviour behaviour;
  behaviour.keeps_outputs = true;
  FakeContestant fake(behaviour, nullptr);
  Plan plan;
  plan.rounds = 3;
  plan.iterations = 4;
  auto evictor = std::make_shared<Counting>(fake);
  plan.evictor = evictor;
  auto c = Case::make(spec_of(4096));
  ASSERT_TRUE(c.ok());
  SideChannel side(nullptr, "side", 0, 1, absl::Seconds(1));
  const auto rows = measure(*c, {&fake}, 0, side, plan);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).iterations, 12);
  EXPECT_EQ(rows->at(0).batch, 1);
  EXPECT_EQ(rows->at(0).wrong, 0);
  EXPECT_EQ(evictor->times, 2 + 12);  // two to learn the cost
  for (size_t i = 1; i < evictor->calls_at.size(); ++i) {
    EXPECT_EQ(evictor->calls_at[i], evictor->calls_at[i - 1] + 1);
  }
}

TEST(Cold, BuffersRotate) {
  Behaviour behaviour;
  behaviour.keeps_outputs = true;
  FakeContestant fake(behaviour, nullptr);
  Plan plan;
  plan.rounds = 2;
  plan.iterations = 20;
  plan.evictor = std::make_shared<Evictor>(1 << 16);
  auto c = Case::make(spec_of(16384));
  ASSERT_TRUE(c.ok());
  SideChannel side(nullptr, "side", 0, 1, absl::Seconds(1));
  ASSERT_TRUE(measure(*c, {&fake}, 0, side, plan).ok());
  const auto& outputs = fake.outputs();
  const std::set<const void*> different(outputs.begin(), outputs.end());
  EXPECT_EQ(different.size(), 5u);
  for (size_t i = 1; i < outputs.size(); ++i) {
    EXPECT_NE(outputs[i], outputs[i - 1]);
  }
}

TEST(Cold, AWrongElementInAnyOfTheBuffersIsFound) {
  Behaviour bad;
  bad.corrupt_from_call = 3;  // first calls with the third set of buffers
  FakeContestant fake(bad, nullptr);
  Plan plan;
  plan.rounds = 1;
  plan.iterations = 1;
  plan.evictor = std::make_shared<Evictor>(1 << 16);
  auto c = Case::make(spec_of(16384));
  ASSERT_TRUE(c.ok());
  SideChannel side(nullptr, "side", 0, 1, absl::Seconds(1));
  const auto rows = measure(*c, {&fake}, 0, side, plan);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).wrong, 3 + 1);  // three sets, and the last call
}

TEST(Cold, WarmPlansUseOneBuffer) {
  Behaviour behaviour;
  behaviour.keeps_outputs = true;
  FakeContestant fake(behaviour, nullptr);
  Plan plan;
  plan.rounds = 2;
  plan.iterations = 3;
  plan.warmup = 1;
  auto c = Case::make(spec_of(16384));
  ASSERT_TRUE(c.ok());
  SideChannel side(nullptr, "side", 0, 1, absl::Seconds(1));
  ASSERT_TRUE(measure(*c, {&fake}, 0, side, plan).ok());
  const auto& outputs = fake.outputs();
  EXPECT_EQ(std::set<const void*>(outputs.begin(), outputs.end()).size(), 1u);
}

TEST(Cold, AsManyBuffersAsFillTheCache) {
  EXPECT_EQ(rotation(0, 1 << 20), 1);
  EXPECT_EQ(rotation(8, 1 << 20), 16);
  EXPECT_EQ(rotation(1 << 18, 1 << 20), 5);
  EXPECT_EQ(rotation(1 << 30, 1 << 20), 2);
}

TEST(Cold, TheEvictorWalksTwiceTheCache) {
  Evictor evictor(1 << 16);
  EXPECT_EQ(evictor.bytes(), 1 << 17);
  evictor.evict();
  EXPECT_GE(largest_cache_bytes(), 1 << 10);
}

}  // namespace
}  // namespace distwrap::bench
