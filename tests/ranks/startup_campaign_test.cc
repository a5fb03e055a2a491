// Many start-ups with a rank that comes late, twice or with other options, or
// whose store dies: no rank hangs, no rank believes in a world that does not
// exist, and all ranks soon learn why.
#include "ranks/startup_campaign.h"

#include "distwrap/status.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace distwrap::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(25);

TryStore::Kind any_kind(Campaign& campaign) {
  return static_cast<TryStore::Kind>(campaign.pick(3));
}

std::vector<RankStart> world_of(int size, const TryStore& store,
                                absl::Duration limit, Campaign& campaign) {
  std::vector<RankStart> ranks(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank)
    ranks[static_cast<size_t>(rank)] = {
        .options = {.backend = "gloo",
                    .rank = rank,
                    .world_size = size,
                    .store = store.connect(),
                    .timeout = kLong,
                    .init_timeout = limit,
                    .ranks_per_node = store.ranks_per_node()},
        .delay = absl::Milliseconds(campaign.pick(5))};
  return ranks;
}

int64_t first_end(const std::vector<RankEnd>& ends) {
  int64_t first = ends[0].ended_ns;
  for (const RankEnd& end : ends) first = std::min(first, end.ended_ns);
  return first;
}

// From the moment at which the failure could be known, or from the rank's
// coming, to its end.
void count_learnt(Campaign& campaign, const RankEnd& end, int64_t known_ns) {
  const absl::Duration took =
      absl::Nanoseconds(end.ended_ns - std::max(end.came_ns, known_ns));
  EXPECT_LT(took, kLoaded) << end.init << end.work;
  campaign.learnt(took);
}

// Delays from 0 to twice the deadline.
void come_late(int tries) {
  Campaign campaign("late", tries);
  constexpr absl::Duration kLimit = absl::Milliseconds(150);
  while (campaign.next()) {
    const int size = 2 + campaign.pick(3), late = campaign.pick(size);
    const TryStore store(any_kind(campaign));
    std::vector<RankStart> ranks = world_of(size, store, kLimit, campaign);
    RankStart& last = ranks[static_cast<size_t>(late)];
    last.delay = absl::Milliseconds(campaign.pick(300));
    SCOPED_TRACE(campaign.told(
        absl::StrCat("rank ", late, " of ", size, " comes ",
                     absl::FormatDuration(last.delay), " after the others")));
    const std::vector<RankEnd> ends = run_try(ranks);
    const auto ok = std::count_if(ends.begin(), ends.end(),
                                  [](const RankEnd& end) { return end.ok(); });
    EXPECT_TRUE(ok == 0 || ok == size) << ok << " believe that all came";
    if (ok == size) continue;
    for (const RankEnd& end : ends) {
      count_learnt(campaign, end, first_end(ends));
      EXPECT_LT(end.ended_ns - end.came_ns,
                absl::ToInt64Nanoseconds(kLimit + kLoaded));
      EXPECT_NE(error_reason(end.init.ok() ? end.work : end.init),
                Reason::kNone);
    }
    const RankEnd& end = ends[static_cast<size_t>(late)];
    bool came_after = true;
    for (const RankEnd& other : ends)
      came_after &= &other == &end || other.ended_ns < end.came_ns;
    if (!came_after) continue;
    EXPECT_EQ(error_reason(end.init), Reason::kRefused) << end.init;
    EXPECT_THAT(std::string(end.init.message()), HasSubstr("too late"));
    for (const RankEnd& other : ends)
      if (&other != &end && error_reason(other.init) == Reason::kTimedOut) {
        EXPECT_THAT(error_info(other.init)->ranks, Contains(late))
            << other.init;
      }
  }
}

TEST(StartUpCampaign, ComingLate) { come_late(10); }
TEST(StartUpCampaign, DISABLED_ComingLate) { come_late(160); }

void come_different(int tries) {
  Campaign campaign("different", tries);
  while (campaign.next()) {
    const int size = 2 + campaign.pick(3), odd = campaign.pick(size);
    const TryStore store(any_kind(campaign));
    std::vector<RankStart> ranks = world_of(size, store, kLong, campaign);
    InitOptions& other = ranks[static_cast<size_t>(odd)].options;
    const int kind = campaign.pick(3);
    if (kind == 0)
      other.backend = "loopback";
    else if (kind == 1 && size > 2 && odd < size - 1)
      other.world_size = size - 1;
    else
      other.world_size = size + 1 + campaign.pick(3);
    SCOPED_TRACE(
        campaign.told(absl::StrCat("rank ", odd, " of ", size, " thinks of ",
                                   other.world_size, " over ", other.backend)));
    const std::vector<RankEnd> ends = run_try(ranks);
    int64_t others = ends[odd == 0 ? 1 : 0].came_ns;
    for (size_t i = 0; i < ends.size(); ++i)
      if (static_cast<int>(i) != odd)
        others = std::min(others, ends[i].came_ns);
    for (const RankEnd& end : ends) {
      count_learnt(campaign, end,
                   std::max(others, ends[static_cast<size_t>(odd)].came_ns));
      EXPECT_THAT(error_reason(end.init),
                  AnyOf(Reason::kCallMismatch, Reason::kRefused))
          << end.init;
      EXPECT_THAT(std::string(end.init.message()),
                  HasSubstr("started differently"));
    }
  }
}

TEST(StartUpCampaign, ComingDifferent) { come_different(25); }
TEST(StartUpCampaign, DISABLED_ComingDifferent) { come_different(120); }

// Two processes with one rank: one is refused, and the job continues with the
// other.
void come_twice(int tries) {
  Campaign campaign("twice", tries);
  while (campaign.next()) {
    const int size = 2 + campaign.pick(3), twice = campaign.pick(size);
    const TryStore store(any_kind(campaign));
    std::vector<RankStart> ranks = world_of(size, store, kLong, campaign);
    ranks.push_back(ranks[static_cast<size_t>(twice)]);
    ranks.back().delay = absl::Milliseconds(campaign.pick(5));
    std::atomic<bool> refused{false};
    for (RankStart& rank : ranks)
      rank.after = [&](const absl::Status& status) {
        if (!status.ok()) refused = true;
      };
    // Not complete before that time.
    const int last = (twice + 1) % size;
    ranks[static_cast<size_t>(last)].before = [&] {
      while (!refused) std::this_thread::yield();
    };
    SCOPED_TRACE(
        campaign.told(absl::StrCat("two are rank ", twice, " of ", size)));
    const std::vector<RankEnd> ends = run_try(ranks);
    int failed = 0;
    for (const RankEnd& end : ends) {
      if (end.ok()) continue;
      ++failed;
      count_learnt(campaign, end,
                   std::max(ends[static_cast<size_t>(twice)].came_ns,
                            ends.back().came_ns));
      EXPECT_EQ(error_reason(end.init), Reason::kRefused) << end.init;
      EXPECT_THAT(std::string(end.init.message()),
                  HasSubstr(absl::StrCat("rank ", twice)));
    }
    EXPECT_EQ(failed, 1);
  }
}

TEST(StartUpCampaign, ComingTwice) { come_twice(25); }
TEST(StartUpCampaign, DISABLED_ComingTwice) { come_twice(120); }

// At any moment of start-up and a little later.
void lose_the_store(int tries) {
  Campaign campaign("store dies", tries);
  absl::Duration usual = absl::Milliseconds(5);
  while (campaign.next()) {
    const int size = 2 + campaign.pick(3);
    TryStore store(campaign.pick(2) == 0 ? TryStore::Kind::kSocket
                                         : TryStore::Kind::kHosts);
    std::vector<RankStart> ranks = world_of(size, store, kLong, campaign);
    const absl::Duration life = absl::Microseconds(campaign.pick(1500)) *
                                (usual / absl::Milliseconds(1));
    SCOPED_TRACE(campaign.told(absl::StrCat(
        size, " ranks, the store dies after ", absl::FormatDuration(life))));
    int64_t died_ns = 0;
    std::thread death([&] {
      std::this_thread::sleep_for(absl::ToChronoNanoseconds(life));
      died_ns = Deadline::now_ns();
      store.die();
    });
    const std::vector<RankEnd> ends = run_try(ranks);
    death.join();
    const bool all_ok = std::all_of(
        ends.begin(), ends.end(), [](const RankEnd& end) { return end.ok(); });
    if (all_ok) {
      usual = absl::Nanoseconds(ends[0].ended_ns - ends[0].came_ns);
      continue;  // running groups do not need it
    }
    bool is_named = false;
    for (const RankEnd& end : ends) {
      if (end.ok()) continue;
      count_learnt(campaign, end, died_ns);
      is_named |= error_reason(end.init) == Reason::kStoreUnreachable;
      EXPECT_NE(error_reason(end.init.ok() ? end.work : end.init),
                Reason::kNone);
    }
    EXPECT_TRUE(is_named) << ends[0].init << ends[1].init;
  }
}

TEST(StartUpCampaign, TheStoreDies) { lose_the_store(20); }
TEST(StartUpCampaign, DISABLED_TheStoreDies) { lose_the_store(120); }

}  // namespace
}  // namespace distwrap::testing
