// The door before real engines, each of whose functions is called properly: it
// is refused and does nothing while a session guards, and works before the
// session, in a scope and afterwards. Our own backends over them, in the same
// process, are never refused.
#include "distwrap/distwrap.h"
#include "distwrap/guard.h"
#include "engine_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace distwrap {
namespace {

void expect_all(const std::vector<EngineFunction>& functions, Outcome outcome) {
  for (const EngineFunction& one : functions)
    EXPECT_EQ(one.call(), outcome) << one.name;
}

class RealEngines : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_NE(guard_status().door, "") << "the door is not preloaded";
  }
};

TEST_P(RealEngines, AreRefusedAndPassInAScope) {
  const bool is_gloo = GetParam() == std::string("Gloo");
  const auto functions = is_gloo ? gloo_functions() : ucx_functions();
  // The table has no function that was not called, but for Gloo's newest.
  std::set<std::string> left;
  for (const GuardStatus::Function& one : guard_status().functions)
    if (one.library == GetParam()) left.insert(one.name);
  for (const EngineFunction& one : functions) left.erase(one.name);
  EXPECT_EQ(left, is_gloo ? std::set<std::string>{"gloo::gatherv"}
                          : std::set<std::string>{});
  expect_all(functions, Outcome::kDone);
  const auto session = Session::create(
      {.rank = 0, .world_size = 1, .guard = GuardMode::kRequire});
  ASSERT_TRUE(session.ok()) << session.status();
  expect_all(functions, Outcome::kRefused);
  {
    const GuardAllow allow("a test");
    expect_all(functions, Outcome::kDone);
  }
  expect_all(functions, Outcome::kRefused);
  EXPECT_TRUE(session->close().ok());
  expect_all(functions, Outcome::kDone);
}

INSTANTIATE_TEST_SUITE_P(Of, RealEngines, ::testing::Values("Gloo", "UCX"));

TEST(RealBackends, AreNotRefused) {
  for (const char* backend : {"gloo", "shm", "ucx"}) {
    const std::shared_ptr<Store> store = Store::in_memory();
    const auto rank = [&](int me) {
      const auto session = Session::create({.backend = backend,
                                            .rank = me,
                                            .world_size = 2,
                                            .store = store,
                                            .guard = GuardMode::kBlock});
      ASSERT_TRUE(session.ok()) << session.status();
      std::vector<float> x(1000, 1);
      const auto sum = all_reduce(TensorView(x), ReduceOp::kSum,
                                  {.group = session->world()});
      EXPECT_TRUE(sum.ok()) << sum.status();
      EXPECT_EQ(x[999], 2);
      EXPECT_TRUE(session->close().ok());
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
  }
}

}  // namespace
}  // namespace distwrap
