// Every option of the start, of new_group and of split_group is read, and a sum
// over the resulting group is right.
#include "base/settings.h"
#include "distwrap/distwrap.h"
#include "group/session_state.h"
#include "ranks/hub_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace distwrap {
namespace {

constexpr int kRanks = 3;

// 1 of rank 0, 10 of rank 1, 100 of rank 2.
int64_t sum_over(const Group& group, Device device = kCpu) {
  constexpr int64_t kParts[] = {1, 10, 100};
  int64_t x = kParts[get_rank()];
  const TensorView view(&x, 1, DType::kI64, device);
  const absl::StatusOr<Work> work =
      all_reduce(view, ReduceOp::kSum, {.group = group});
  EXPECT_TRUE(work.ok()) << work.status();
  return x;
}

const InitOptions kBoth{.backend = "cpu:perfect,cuda:faux",
                        .timeout = absl::Seconds(60),
                        .init_timeout = absl::Seconds(60)};

TEST(OptionsOfNewGroup, EachIsReadAndTheGroupWorks) {
  testing::run_hub_ranks(kRanks, kBoth, [](Session& session) {
    struct Case {
      const char* what;
      NewGroupOptions options;
      int64_t sum;
      std::function<void(const Group&)> look = [](const Group&) {};
    };
    const Case cases[] = {
        {"default", {}, 111},
        {"all",
         {.ranks = std::vector<int>{2, 0, 1}},
         111,
         [](const Group& g) {
           EXPECT_EQ(g.global_ranks(), (std::vector<int>{0, 1, 2}));
         }},
        {"some",
         {.ranks = std::vector<int>{2, 1}},
         110,
         [](const Group& g) {
           EXPECT_EQ(g.global_ranks(), (std::vector<int>{1, 2}));
         }},
        {"timeout",
         {.timeout = absl::Seconds(33)},
         111,
         [](const Group& g) { EXPECT_EQ(g.timeout(), absl::Seconds(33)); }},
        {"description",
         {.group_desc = "tens"},
         111,
         [](const Group& g) {
           EXPECT_EQ(g.description(), "tens");
           EXPECT_EQ(g.name(), "world/tens");
         }},
        {"backend",
         {.backend = "cuda:faux"},
         111,
         [](const Group& g) {
           EXPECT_EQ(error_reason(g.communicator(kCpu).status()),
                     Reason::kNoCommunicator);
         }},
        {"another backend",
         {.backend = "cpu:gloo"},
         111,
         [](const Group& g) { EXPECT_EQ(*get_backend(g, kCpu), "gloo"); }},
        {"hints", {.hints = std::map<std::string, std::string>{}}, 111},
        {"device", {.device_id = 0}, 111},
        {"members only",
         {.ranks = std::vector<int>{0, 2}, .use_local_synchronization = true},
         101},
    };
    for (const Case& one : cases) {
      SCOPED_TRACE(one.what);
      const std::vector<int> members =
          one.options.ranks.value_or(std::vector<int>{0, 1, 2});
      const bool member = std::find(members.begin(), members.end(),
                                    session.rank()) != members.end();
      if (one.options.use_local_synchronization && !member) continue;
      const absl::StatusOr<Group> made = new_group(one.options);
      ASSERT_TRUE(made.ok()) << made.status();
      ASSERT_EQ(static_cast<bool>(*made), member);
      if (!member) continue;
      const bool on_host = one.options.backend != "cuda:faux";
      EXPECT_EQ(sum_over(*made, on_host ? kCpu : Device{DW_DEVICE_CUDA, 0}),
                one.sum);
      one.look(*made);
    }
    EXPECT_EQ(sum_over({}), 111);
  });
}

TEST(OptionsOfSplitGroup, EachIsReadAndTheGroupWorks) {
  testing::run_hub_ranks(kRanks, kBoth, [](Session& session) {
    const int me = session.rank();
    const auto one = split_group({.split_ranks = {{0, 1, 2}}});
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_EQ(sum_over(*one), 111);
    const auto single = split_group({.split_ranks = {{0}, {1}, {2}}});
    ASSERT_TRUE(single.ok()) << single.status();
    EXPECT_EQ(single->size(), 1);
    EXPECT_EQ(sum_over(*single), me == 0 ? 1 : me == 1 ? 10 : 100);
    const auto options = split_group({.split_ranks = {{2, 1, 0}},
                                      .timeout = absl::Seconds(33),
                                      .group_desc = "turned",
                                      .backend = "cpu:gloo"});
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->timeout(), absl::Seconds(33));
    EXPECT_EQ(options->description(), "turned");
    EXPECT_EQ(*get_backend(*options, kCpu), "gloo");
    EXPECT_EQ(options->rank(), 2 - me);
    EXPECT_EQ(sum_over(*options), 111);
    // Splits the group: the child works before and after its parent.
    const auto child =
        split_group({.parent = *options, .split_ranks = {{0, 2}, {1}}});
    ASSERT_TRUE(child.ok()) << child.status();
    EXPECT_EQ(child->parent(), *options);
    EXPECT_EQ(sum_over(*child), me == 1 ? 10 : 101);
    EXPECT_EQ(sum_over(*options), 111);
    EXPECT_TRUE(destroy_process_group(*child).ok());
    EXPECT_EQ(sum_over(*options), 111);
  });
}

// Ranks that can share memory do so, whether or not they compare their calls.
TEST(OptionsOfTheStart, TheDefaultBackendIsTheFastestThatFits) {
  for (const Check check : {Check::kSignature, Check::kOff})
    testing::run_hub_ranks(3, {.check = check}, [](Session& session) {
      EXPECT_EQ(*get_backend(session.world()), "shm");
      EXPECT_EQ(session.world().device_backends().front().backend, "auto");
      EXPECT_EQ(sum_over(session.world()), 111);
      const auto named = split_group({.parent = session.world(),
                                      .split_ranks = {{0, 1}, {2}},
                                      .backend = "cpu:auto"});
      ASSERT_TRUE(named.ok()) << named.status();
      EXPECT_EQ(sum_over(*named), session.rank() == 2 ? 100 : 11);
    });
  testing::run_hub_ranks(1, {}, [](Session& session) {
    EXPECT_EQ(*get_backend(session.world()), "loopback");
  });
}

// Starts the ranks with each rank's options and environment.
void start_on_all(
    const InitOptions& options,
    const std::function<base::Environment::Variables(int)>& variables,
    const std::function<void(Session&)>& look,
    const std::function<void(int, InitOptions*)>& rank_options =
        [](int, InitOptions*) {}) {
  const std::shared_ptr<Store> store = Store::in_memory();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      InitOptions mine = options;
      mine.store = store;
      rank_options(rank, &mine);
      const auto plan =
          group::plan_session(mine, base::Environment(variables(rank)));
      ASSERT_TRUE(plan.ok()) << plan.status();
      auto state = group::SessionState::create(*plan);
      ASSERT_TRUE(state.ok()) << state.status();
      Session session(*state);
      bind_session(session);
      EXPECT_EQ(session.rank(), rank);
      EXPECT_EQ(session.world_size(), kRanks);
      EXPECT_EQ(sum_over({}), 111);
      look(session);
      EXPECT_TRUE(session.close().ok());
      bind_session({});
    });
  for (std::thread& rank : ranks) rank.join();
}

TEST(OptionsOfInit, EachIsReadAndTheWorldWorks) {
  const auto nothing = [](int) { return base::Environment::Variables(); };
  const auto from_launcher = [](int rank) {
    return base::Environment::Variables{
        {"DISTWRAP_RANK", std::to_string(rank)},
        {"DISTWRAP_WORLD_SIZE", std::to_string(kRanks)}};
  };
  const auto given = [](int rank, InitOptions* mine) {
    mine->rank = rank;
    mine->world_size = kRanks;
  };
  const InitOptions gloo{.backend = "gloo", .init_timeout = absl::Seconds(60)};
  const auto no_look = [](Session&) {};
  {
    SCOPED_TRACE("rank and size given");
    start_on_all(gloo, nothing, no_look, given);
  }
  {
    SCOPED_TRACE("both from the environment");
    start_on_all(gloo, from_launcher, no_look);
  }
  {
    SCOPED_TRACE("the rank given, the size from the environment");
    start_on_all(gloo, from_launcher, no_look,
                 [](int rank, InitOptions* mine) { mine->rank = rank; });
  }
  {
    SCOPED_TRACE("the size given, the rank from the environment");
    start_on_all(gloo, from_launcher, no_look,
                 [](int, InitOptions* mine) { mine->world_size = kRanks; });
  }
  {
    SCOPED_TRACE("no backend");
    start_on_all({.init_timeout = absl::Seconds(60)}, nothing, no_look, given);
  }
  {
    SCOPED_TRACE("timeout, name, device");
    InitOptions options = gloo;
    options.timeout = absl::Seconds(33);
    options.group_name = "everybody";
    options.device_id = 0;
    start_on_all(
        options, nothing,
        [](Session& session) {
          EXPECT_EQ(session.world().timeout(), absl::Seconds(33));
          EXPECT_EQ(session.world().description(), "everybody");
        },
        given);
  }
}

// Former trap 1: whatever step of the start fails, nothing of it remains, and
// the next start works.
TEST(OptionsOfInit, AStartThatFailedLeavesTheNextOneFree) {
  const auto store = Store::in_memory();
  const InitOptions good{.backend = "loopback",
                         .rank = 0,
                         .world_size = 1,
                         .store = store,
                         .init_timeout = absl::Milliseconds(200)};
  std::vector<InitOptions> bad(5, good);
  bad[0].backend = "nobody";
  bad[1].backend = "cpu:loopback,cpu:gloo";
  bad[2].init_method = "file:///tmp/x";
  bad[3].world_size = 2;  // no other rank comes
  bad[4].hints = {{"no such hint", "1"}};
  for (InitOptions& one : bad) {
    SCOPED_TRACE(&one - bad.data());
    EXPECT_FALSE(init_process_group(one).ok());
    EXPECT_FALSE(is_initialized());
    const absl::StatusOr<Session> again = init_process_group(good);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(sum_over({}), 1);
    EXPECT_TRUE(destroy_process_group().ok());
  }
}

}  // namespace
}  // namespace distwrap
