#include "bench/side_channel.h"

#include "fake_contestant.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distwrap::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SideChannel, EverybodyGetsEverything) {
  run_ranks(3, [](int rank, std::shared_ptr<Store> store) {
    SideChannel side(store, "side", rank, 3, absl::Seconds(60));
    for (int turn = 0; turn < 4; ++turn) {
      const auto all = side.exchange(absl::StrCat(turn, "of", rank));
      ASSERT_TRUE(all.ok()) << all.status();
      EXPECT_THAT(*all, ElementsAre(absl::StrCat(turn, "of0"),
                                    absl::StrCat(turn, "of1"),
                                    absl::StrCat(turn, "of2")));
    }
  });
}

TEST(SideChannel, MaxAndSum) {
  run_ranks(2, [](int rank, std::shared_ptr<Store> store) {
    SideChannel side(store, "side", rank, 2, absl::Seconds(60));
    std::vector<double> values = {1.0 + rank, 5.0 - rank};
    ASSERT_TRUE(side.max(values).ok());
    EXPECT_THAT(values, ElementsAre(2, 5));
    EXPECT_EQ(*side.sum(10 + rank), 21);
    std::vector<double> none;
    EXPECT_TRUE(side.max(none).ok());
  });
}

TEST(SideChannel, DifferentLengthsAreAnError) {
  run_ranks(2, [](int rank, std::shared_ptr<Store> store) {
    SideChannel side(store, "side", rank, 2, absl::Seconds(60));
    std::vector<double> values(static_cast<size_t>(rank) + 1);
    EXPECT_FALSE(side.max(values).ok());
  });
}

TEST(SideChannel, ErrorsOfAllAreToldToAll) {
  run_ranks(3, [](int rank, std::shared_ptr<Store> store) {
    SideChannel side(store, "side", rank, 3, absl::Seconds(60));
    EXPECT_TRUE(side.agree(absl::OkStatus()).ok());
    const absl::Status agreed =
        side.agree(rank == 0 ? absl::OkStatus()
                             : absl::AbortedError(absl::StrCat("of ", rank)));
    EXPECT_EQ(agreed.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(agreed.message()), HasSubstr("of 1"));
    EXPECT_THAT(std::string(agreed.message()), HasSubstr("of 2"));
    EXPECT_TRUE(SideChannel::agreed(agreed));
  });
}

TEST(SideChannel, ASharedErrorIsToldOnce) {
  run_ranks(2, [](int rank, std::shared_ptr<Store> store) {
    SideChannel side(store, "side", rank, 2, absl::Seconds(60));
    const absl::Status mine = absl::NotFoundError("no such backend");
    EXPECT_FALSE(SideChannel::agreed(mine));
    EXPECT_EQ(std::string(side.agree(mine).message()), "no such backend");
  });
}

TEST(SideChannel, AMissingRankEndsTheWait) {
  SideChannel side(Store::in_memory(), "side", 0, 2, absl::Milliseconds(50));
  EXPECT_EQ(side.barrier().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(SideChannel, OneRankNeedsNoStore) {
  SideChannel side(nullptr, "side", 0, 1, absl::Seconds(1));
  EXPECT_TRUE(side.barrier().ok());
  EXPECT_EQ(*side.sum(3), 3);
}

}  // namespace
}  // namespace distwrap::bench
