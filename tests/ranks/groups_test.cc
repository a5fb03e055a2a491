// Groups of several ranks: numbering, communicators by device, inheritance.
#include "distwrap/distwrap.h"
#include "ranks/hub_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace distwrap {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_hub_ranks;

const InitOptions kPerfect{.backend = "perfect",
                           .init_timeout = absl::Seconds(60)};
const InitOptions kGloo{.backend = "gloo", .init_timeout = absl::Seconds(60)};

int64_t sum_over(const Group& group, int64_t mine) {
  std::vector<int64_t> x = {mine};
  const absl::StatusOr<Work> work =
      all_reduce(TensorView(x), ReduceOp::kSum, {.group = group});
  EXPECT_TRUE(work.ok()) << work.status();
  return x[0];
}

TEST(Groups, PlaceInTheListIsTheRankAtAnyDepth) {
  run_hub_ranks(5, kPerfect, [](Session& session) {
    const absl::StatusOr<Group> odd =
        split_group({.split_ranks = {{3, 1, 2, 4}, {0}}});
    ASSERT_TRUE(odd.ok()) << odd.status();
    if (session.rank() == 0) {
      EXPECT_THAT(odd->global_ranks(), ElementsAre(0));
      return;
    }
    EXPECT_THAT(odd->global_ranks(), ElementsAre(3, 1, 2, 4));
    EXPECT_EQ(odd->group_rank(1), 1);
    EXPECT_EQ(odd->group_rank(0), -1);
    EXPECT_EQ(odd->parent(), session.world());
    // Ranks are in the parent's numbering.
    const absl::StatusOr<Group> inner =
        split_group({.parent = *odd, .split_ranks = {{2, 0}}});
    ASSERT_TRUE(inner.ok()) << inner.status();
    const bool in = session.rank() == 2 || session.rank() == 3;
    ASSERT_EQ(static_cast<bool>(*inner), in);
    if (!in) return;
    EXPECT_THAT(inner->global_ranks(), ElementsAre(2, 3));
    EXPECT_EQ(inner->rank(), session.rank() == 2 ? 0 : 1);
    EXPECT_EQ(sum_over(*inner, session.rank()), 5);
    EXPECT_EQ(*get_global_rank(*inner, 1), 3);
    EXPECT_EQ(*get_group_rank(*inner, 3), 1);
    EXPECT_EQ(error_reason(get_group_rank(*inner, 4).status()),
              Reason::kRankNotMember);
    EXPECT_THAT(std::string(get_group_rank(*inner, 4).status().message()),
                HasSubstr("Global rank 4 is not in process group"));
  });
}

// An earlier mistake: a list in the parent's numbering where positions,
// parent's and world's numbers all differ.
TEST(Groups, ASplitOfAGroupInAnotherOrder) {
  run_hub_ranks(4, kGloo, [](Session& session) {
    const auto outer = split_group({.split_ranks = {{3, 1, 2}}});
    ASSERT_TRUE(outer.ok()) << outer.status();
    if (session.rank() == 0) {
      EXPECT_FALSE(*outer);
      return;
    }
    const auto inner = split_group({.parent = *outer, .split_ranks = {{2, 0}}});
    ASSERT_TRUE(inner.ok()) << inner.status();
    ASSERT_EQ(static_cast<bool>(*inner), session.rank() != 1);
    EXPECT_EQ(sum_over(*outer, 1), 3);
    if (!*inner) return;
    EXPECT_THAT(inner->global_ranks(), ElementsAre(2, 3));
    for (const Peer src : {Peer::global(3), Peer::group(1)}) {
      std::vector<int> x = {session.rank()};
      ASSERT_TRUE(broadcast(TensorView(x), src, {.group = *inner}).ok());
      EXPECT_EQ(x[0], 3);
    }
  });
}

// Lesson G6: a split without some ranks must not affect later ones.
TEST(Groups, AsymmetricSplitsThenACommonOperation) {
  run_hub_ranks(4, kGloo, [](Session& session) {
    for (int i = 0; i < 3; ++i) {
      const auto some = split_group({.split_ranks = {{0, i + 1}}});
      ASSERT_TRUE(some.ok()) << some.status();
      const auto all = split_group({.split_ranks = {{3, 2, 1, 0}}});
      ASSERT_TRUE(all.ok()) << all.status();
      EXPECT_EQ(sum_over(*all, session.rank()), 6);
      if (*some) {
        EXPECT_EQ(sum_over(*some, session.rank()), i + 1);
      }
    }
    EXPECT_EQ(sum_over({}, 1), 4);
  });
}

TEST(Groups, ColoursOrderByKeyThenRank) {
  run_hub_ranks(4, kPerfect, [](Session& session) {
    const int r = session.rank();
    const auto group = split_group_by_color(r == 1 ? -1 : 7, -(r / 2));
    ASSERT_TRUE(group.ok()) << group.status();
    ASSERT_EQ(static_cast<bool>(*group), r != 1);
    if (r != 1) {
      EXPECT_THAT(group->global_ranks(), ElementsAre(2, 3, 0));
    }
  });
}

// Lessons G10, M1: the members alone make a group, on the session's store.
TEST(Groups, MembersAloneMakeAGroup) {
  run_hub_ranks(4, kGloo, [](Session& session) {
    if (session.rank() == 0 || session.rank() == 2) return;
    const auto pair = new_group(
        {.ranks = std::vector<int>{3, 1}, .use_local_synchronization = true});
    ASSERT_TRUE(pair.ok()) << pair.status();
    EXPECT_THAT(pair->global_ranks(), ElementsAre(1, 3)) << "sorted";
    EXPECT_EQ(sum_over(*pair, 1), 2);
  });
}

TEST(Groups, ARankOutsideGetsNothingAndNothingIsRegistered) {
  run_hub_ranks(3, kPerfect, [](Session& session) {
    for (int i = 0; i < 2; ++i) {
      const auto pair = new_group({.ranks = std::vector<int>{0, 1}});
      ASSERT_TRUE(pair.ok()) << pair.status();
      EXPECT_EQ(static_cast<bool>(*pair), session.rank() != 2);
    }
    EXPECT_EQ(session.registry().size(), session.rank() == 2 ? 1u : 3u);
  });
}

// Lessons M2, M5.
TEST(Groups, ChildrenInheritAndShortTimeoutsAreHarmless) {
  InitOptions options = kGloo;
  options.timeout = absl::Seconds(77);
  run_hub_ranks(2, options, [](Session& session) {
    auto child = split_group({.split_ranks = {{0, 1}}, .group_desc = "both"});
    ASSERT_TRUE(child.ok()) << child.status();
    EXPECT_EQ(child->timeout(), absl::Seconds(77));
    EXPECT_EQ(child->description(), "both");
    EXPECT_EQ(child->device_backends(), session.world().device_backends());
    const auto hasty = split_group(
        {.split_ranks = {{0, 1}}, .timeout = absl::Milliseconds(1)});
    ASSERT_TRUE(hasty.ok()) << hasty.status();
    EXPECT_EQ(hasty->timeout(), absl::Milliseconds(1));
    ASSERT_TRUE(set_timeout(*hasty, absl::Seconds(50)).ok());
    EXPECT_EQ(sum_over(*hasty, 1), 2);
    EXPECT_EQ(error_reason(set_timeout(*hasty, absl::ZeroDuration())),
              Reason::kInvalidArgument);
  });
}

TEST(Groups, ANameMayBeUsedAgain) {
  std::mutex mutex;
  std::set<uint64_t> uids;
  run_hub_ranks(2, kPerfect, [&](Session& session) {
    for (int i = 0; i < 5; ++i) {
      const auto same =
          split_group({.split_ranks = {{0, 1}}, .group_desc = "same"});
      ASSERT_TRUE(same.ok()) << same.status();
      EXPECT_EQ(sum_over(*same, session.rank()), 1);
      std::lock_guard<std::mutex> lock(mutex);
      uids.insert(same->uid());
    }
  });
  EXPECT_EQ(uids.size(), 5u) << "equal on the ranks, different each time";
}

TEST(Groups, EachDeviceHasItsCommunicator) {
  InitOptions options = kPerfect;
  options.backend = " cuda : faux , cpu:perfect ";
  run_hub_ranks(2, options, [](Session& session) {
    const Group world = session.world();
    EXPECT_EQ(format_backend(world.device_backends()), "cuda:faux,cpu:perfect");
    constexpr Device kCuda{2, 0};
    EXPECT_EQ(*get_backend({}, kCuda), "faux");
    EXPECT_EQ(*get_backend(), "perfect");
    std::vector<float> x = {1};
    const TensorView near(x);
    const TensorView far(x.data(), 1, DType::kF32, kCuda);
    ASSERT_TRUE(all_reduce(far).ok());
    EXPECT_EQ(x[0], 2);
    ASSERT_TRUE(all_reduce(near).ok());
    EXPECT_EQ(x[0], 4);
    EXPECT_FALSE(capabilities({}, kCuda)->empty());

    std::vector<float> y(2);
    const TensorView all(y.data(), 2, DType::kF32, kCuda);
    const TensorView parts[] = {all.flat(0, 1), all.flat(1, 1)};
    ASSERT_TRUE(all_gather_into_tensor(all, far).ok());
    EXPECT_EQ(y, (std::vector<float>{4, 4}));
    ASSERT_TRUE(reduce_scatter(far, parts).ok());
    EXPECT_EQ(x[0], 8);
    ASSERT_TRUE(all_gather_v(all, far, {1, 1}).ok());
    EXPECT_EQ(y, (std::vector<float>{8, 8}));
    ASSERT_TRUE(all_gather(parts, far).ok());

    // Refused on every rank, before anything is sent.
    for (const absl::Status& mixed :
         {all_reduce(far, near, ReduceOp::kSum).status(),
          all_reduce(near, far, ReduceOp::kSum).status(),
          all_gather(parts, near).status(),
          all_gather_v(TensorView(y), far, {1, 1}).status()}) {
      EXPECT_EQ(error_reason(mixed), Reason::kInvalidArgument) << mixed;
      EXPECT_THAT(std::string(mixed.message()),
                  HasSubstr("not in memory of the device"));
    }
    EXPECT_THAT(std::string((*world.communicator(kCuda))
                                ->all_reduce(near, near, ReduceOp::kSum)
                                .status()
                                .message()),
                HasSubstr("device type 2"));

    Batch batch;
    std::vector<float> z = {1};
    batch.all_reduce(far);
    batch.all_reduce(TensorView(z));
    const auto both = batch.submit();
    ASSERT_TRUE(both.ok()) << both.status();
    ASSERT_TRUE(both->wait().ok());
    EXPECT_EQ(x[0], 16);
    EXPECT_EQ(z[0], 2);

    const auto host =
        split_group({.split_ranks = {{0, 1}}, .backend = "perfect"});
    ASSERT_TRUE(host.ok()) << host.status();
    const absl::Status none =
        all_reduce(far, ReduceOp::kSum, {.group = *host}).status();
    EXPECT_EQ(error_reason(none), Reason::kNoCommunicator);
    EXPECT_THAT(std::string(none.message()),
                HasSubstr("device type 'cuda'. Available: cpu"));
    // A split can only restrict the devices; fails at once.
    EXPECT_EQ(error_reason(split_group({.parent = *host,
                                        .split_ranks = {{0, 1}},
                                        .backend = "cuda:faux"})
                               .status()),
              Reason::kNoCommunicator);
    // Another backend for the same device.
    const auto other =
        split_group({.split_ranks = {{0, 1}}, .backend = "cpu:gloo"});
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(*get_backend(*other), "gloo");
    EXPECT_EQ(sum_over(*other, 1), 2);
  });
}

// Each backend gets the hints that it knows; a hint that no backend knows is
// refused with the nearest known one.
TEST(Groups, HintsGoToTheBackendsThatKnowThem) {
  InitOptions options = kGloo;
  options.backend = "cpu:gloo,cuda:faux";
  options.hints = {{"interface", "lo"}};
  run_hub_ranks(2, options, [](Session& session) {
    EXPECT_EQ(sum_over({}, 1), 2);
    // A hint that is inherited by a group whose backend does not know it is
    // dropped.
    const auto host =
        split_group({.split_ranks = {{0, 1}}, .backend = "perfect"});
    ASSERT_TRUE(host.ok()) << host.status();
    EXPECT_EQ(sum_over(*host, 1), 2);
    const std::map<std::string, std::string> typo = {{"interfaec", "lo"}};
    for (const absl::Status& status :
         {split_group({.split_ranks = {{0, 1}}, .hints = typo}).status(),
          new_group({.hints = typo}).status()}) {
      EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("none of the backends gloo, faux has a hint "
                                  "'interfaec'"),
                        HasSubstr("did you mean 'interface'?")));
    }
    const absl::Status none =
        split_group(
            {.split_ranks = {{0, 1}}, .hints = typo, .backend = "perfect"})
            .status();
    EXPECT_THAT(std::string(none.message()),
                AllOf(HasSubstr("backend perfect has no hint 'interfaec'"),
                      HasSubstr("expected none")));
    EXPECT_EQ(sum_over(session.world(), 1), 2);
  });
}

TEST(Groups, UserDataAndRecords) {
  run_hub_ranks(2, kPerfect, [](Session& session) {
    GroupRegistry& registry = session.registry();
    const auto group =
        split_group({.split_ranks = {{1, 0}}, .group_desc = "x"});
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_EQ(registry.get(*group)->rank_to_group_rank.at(1), 0);
    EXPECT_EQ(*registry.get_group_desc(*group), "x");
    ASSERT_TRUE(registry.set_data(*group, "k", 5).ok());
    EXPECT_EQ(std::any_cast<int>(*registry.get_data(*group, "k")), 5);
    EXPECT_EQ(error_reason(registry.get_data(*group, "no").status()),
              Reason::kGroupUnknown);
    const absl::Status twice = registry.create(*group, {}, "");
    EXPECT_EQ(error_reason(twice), Reason::kGroupDuplicate);
    EXPECT_THAT(std::string(twice.message()), HasSubstr("already registered"));
    ASSERT_TRUE(destroy_process_group(*group).ok());
    EXPECT_FALSE(registry.get(*group).has_value());
    const absl::Status gone = registry.assert_registered(*group);
    EXPECT_EQ(error_reason(gone), Reason::kGroupUnknown);
    EXPECT_THAT(std::string(gone.message()), HasSubstr("not registered"));
    registry.destroy(*group);
  });
}

// Ranks that count as on two hosts, on one machine.
TEST(Groups, HostsCanBeForced) {
  for (const char* const backend : {"gloo", "auto"}) {
    const InitOptions options{.backend = backend,
                              .init_timeout = absl::Seconds(60),
                              .ranks_per_node = 2};
    run_hub_ranks(4, options, [](Session& session) {
      EXPECT_THAT(session.world().host_of(), ElementsAre(0, 0, 1, 1));
      EXPECT_EQ(sum_over(session.world(), session.rank()), 6);
      EXPECT_NE((*session.world().communicator())->backend(), "shm");
      const auto near = split_group({.split_ranks = {{0, 1}, {2, 3}}});
      ASSERT_TRUE(near.ok()) << near.status();
      EXPECT_EQ(sum_over(*near, 1), 2);
      // shm reaches the ranks of one host, and no others.
      const auto far =
          split_group({.split_ranks = {{0, 2}, {1, 3}}, .backend = "shm"});
      EXPECT_EQ(error_reason(far.status()), Reason::kUnsupported)
          << far.status();
    });
  }
}

}  // namespace
}  // namespace distwrap
