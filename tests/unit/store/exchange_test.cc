#include "store/exchange.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "distwrap/status.h"
#include "store/presence.h"
#include "store_under_test.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace distwrap::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Exchange : public StoreTest {
 protected:
  // None of the keys that an exchange of `size` uses exists.
  void expect_no_key(absl::string_view key, int size) {
    expect_no_blob(key, size);
    const auto store = connect();
    for (const char* more : {"/present", "/over"})
      EXPECT_FALSE(*store->delete_key(absl::StrCat(key, more), soon())) << more;
  }
  void expect_no_blob(absl::string_view key, int size) {
    const auto store = connect();
    for (int i = 0; i < size; ++i)
      EXPECT_FALSE(*store->delete_key(absl::StrCat(key, "/", i), soon())) << i;
  }
  // Waits until so many ranks are in the exchange.
  static void await_present(Store& store, absl::string_view key, int count) {
    const Deadline deadline = soon();
    while (*store.add(absl::StrCat(key, "/present"), 0, deadline) < count)
      std::this_thread::yield();
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, Exchange, every_store(), store_name);

TEST_P(Exchange, EveryRankGetsAllInOrder) {
  for (const int size : {1, 2, 4, 7}) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank)
      ranks.emplace_back([&, rank] {
        const auto all = exchange(*connect(), "key", rank, size,
                                  absl::StrCat("blob ", rank), soon());
        ASSERT_TRUE(all.ok()) << all.status();
        ASSERT_EQ(all->size(), static_cast<size_t>(size));
        for (int i = 0; i < size; ++i)
          EXPECT_EQ((*all)[static_cast<size_t>(i)], absl::StrCat("blob ", i));
      });
    for (std::thread& rank : ranks) rank.join();
    expect_no_key("key", size);
  }
}

TEST_P(Exchange, MissingRanksAreNamed) {
  // Connected before the clock starts, with one deadline. The two ranks have to
  // reach it before either may give up.
  const std::shared_ptr<Store> stores[] = {connect(), connect()};
  const Deadline deadline = Deadline::after(absl::Seconds(1));
  std::vector<std::thread> ranks;
  for (const int rank : {0, 2})
    ranks.emplace_back([&, rank] {
      const auto all =
          exchange(*stores[rank / 2], "key", rank, 4, "", deadline);
      const auto info = error_info(all.status());
      ASSERT_TRUE(info.has_value()) << all.status();
      EXPECT_EQ(info->reason, Reason::kTimedOut);
      EXPECT_THAT(info->ranks, ElementsAre(1, 3));
      EXPECT_EQ(info->my_rank, rank);
      EXPECT_EQ(info->group_size, 4);
      EXPECT_THAT(info->what, HasSubstr("\"key\""));
    });
  for (std::thread& rank : ranks) rank.join();
  expect_no_blob("key", 4);
}

// The first rank that reaches its deadline ends the exchange for all, so no
// rank waits for a result that cannot come. That rank has little time to tell,
// so a loaded machine gets several attempts.
TEST_P(Exchange, WhoWaitsLongerIsToldByTheFirstThatGivesUp) {
  constexpr absl::Duration kBrief = absl::Seconds(1);
  bool told = false;
  for (int i = 0; i < 5 && !told; ++i) {
    const std::string key = absl::StrCat("key", i);
    const std::shared_ptr<Store> stores[] = {connect(), connect()};
    absl::Status patient;
    std::thread waits([&] {
      patient = exchange(*stores[0], key, 0, 3, "", soon()).status();
    });
    await_present(*stores[1], key, 1);
    const absl::Status brief =
        exchange(*stores[1], key, 1, 3, "", Deadline::after(kBrief)).status();
    waits.join();
    for (const absl::Status& status : {patient, brief})
      ASSERT_EQ(error_reason(status), Reason::kTimedOut) << status;
    EXPECT_EQ(error_info(patient)->my_rank, 0);
    told = error_info(patient)->deadline <= kBrief;
    if (!told) continue;
    for (const absl::Status& status : {patient, brief})
      EXPECT_THAT(error_info(status)->ranks, ElementsAre(2)) << status;
  }
  EXPECT_TRUE(told);
}

TEST_P(Exchange, WhoComesAfterwardsIsRefusedAtOnce) {
  const auto store = connect();
  ASSERT_FALSE(
      exchange(*store, "key", 0, 2, "", Deadline::after(absl::Seconds(1)))
          .ok());
  const int64_t started = Deadline::now_ns();
  for (int again = 0; again < 2; ++again) {
    const absl::Status late =
        exchange(*connect(), "key", 1, 2, "", soon()).status();
    EXPECT_EQ(error_reason(late), Reason::kRefused) << late;
    EXPECT_THAT(error_info(late)->what, HasSubstr("rank 1 came too late"));
    EXPECT_THAT(error_info(late)->cause, HasSubstr("1 of 2 ranks"));
    EXPECT_THAT(error_info(late)->ranks, ElementsAre(1));
  }
  EXPECT_LT(Deadline::now_ns() - started, 10'000'000'000);
  expect_no_blob("key", 2);
}

TEST_P(Exchange, WhoCannotTakePartTellsAll) {
  const ErrorInfo why{.reason = Reason::kOutOfMemory,
                      .what = "no memory",
                      .op = "init",
                      .ranks = {2}};
  for (const bool before : {false, true}) {
    const std::string key = before ? "before" : "after";
    const auto store = connect();
    absl::Status statuses[2];
    const auto take_part = [&](int rank) {
      statuses[rank] =
          exchange(*connect(), key, rank, 3, "", Deadline::never()).status();
    };
    if (before) give_up_exchange(*store, key, 2, 3, why, soon());
    std::thread ranks[] = {std::thread(take_part, 0),
                           std::thread(take_part, 1)};
    if (!before) {
      await_present(*store, key, 1);
      give_up_exchange(*store, key, 2, 3, why, soon());
    }
    for (std::thread& rank : ranks) rank.join();
    for (const int rank : {0, 1}) {
      const auto info = error_info(statuses[rank]);
      ASSERT_TRUE(info.has_value()) << statuses[rank];
      EXPECT_EQ(info->reason, Reason::kOutOfMemory);
      EXPECT_EQ(info->what, "no memory");
      EXPECT_THAT(info->ranks, ElementsAre(2));
      EXPECT_EQ(info->my_rank, rank);
    }
    expect_no_blob(key, 3);
  }
}

// A rank that gave up without waking others is noticed at the next report.
TEST_P(Exchange, ASleeperHearsAtItsNextReport) {
  const auto store = connect();
  absl::Status status;
  std::thread waits([&] {
    status = exchange(*connect(), "key", 0, 2, "", Deadline::never(),
                      absl::Milliseconds(20))
                 .status();
  });
  await_present(*store, "key", 1);
  give_up_exchange(*store, "key", 1, 0,
                   {.reason = Reason::kAborted, .what = "gone", .op = "init"},
                   soon());
  waits.join();
  EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
}

// The text of a rank whose time was over afterwards is found as well.
TEST_P(Exchange, ASleeperHearsOfOneThatCouldOnlySayWhy) {
  const auto store = connect();
  const std::string text =
      "x" + base::encode_error({.reason = Reason::kAborted, .what = "gone"});
  ASSERT_TRUE(store->compare_set("key/over", "", text, soon()).ok());
  const absl::Status status =
      exchange(*connect(), "key", 0, 2, "", soon(), absl::Milliseconds(20))
          .status();
  EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
}

// The first rank that gives up has woken rank 1 when this rank's time is over:
// that rank's place is filled, although it did not come.
TEST_P(Exchange, AtItsDeadlineItHearsOfOneThatGivesUp) {
  const auto store = connect();
  const std::string text =
      "x" +
      base::encode_error(
          {.reason = Reason::kTimedOut, .what = "first", .ranks = {1, 2}});
  ASSERT_TRUE(store->compare_set("key/over", "", text, soon()).ok());
  ASSERT_TRUE(store->set("key/1", text, soon()).ok());
  const absl::Status status = exchange(*connect(), "key", 0, 4, "",
                                       Deadline::after(absl::Milliseconds(30)))
                                  .status();
  EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
  EXPECT_THAT(error_info(status)->ranks, ElementsAre(1, 2)) << status;
}

TEST_P(Exchange, WhatCannotBeReadIsSaid) {
  const auto store = connect();
  ASSERT_TRUE(store->set("key/1", "xnonsense", soon()).ok());
  const absl::Status status =
      exchange(*store, "key", 0, 2, "", soon()).status();
  EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
  EXPECT_THAT(error_info(status)->what, HasSubstr("cannot be read"));
}

TEST_P(Exchange, MissingRanksAreLoggedWhileItWaits) {
  struct {
    base::Mutex mutex;
    std::vector<std::string> lines ABSL_GUARDED_BY(mutex);
  } logged;
  const auto store = connect();
  base::set_log_sink([&](base::LogLevel level, absl::string_view text) {
    EXPECT_EQ(level, base::LogLevel::kWarning);
    base::MutexLock lock(logged.mutex);
    logged.lines.emplace_back(text);
    // The missing blob comes after the second report.
    if (logged.lines.size() == 2) {
      EXPECT_TRUE(
          store->set("key/0", Presence::blob_text("late"), soon()).ok());
      EXPECT_TRUE(
          store->set("key/2", Presence::blob_text("late"), soon()).ok());
    }
  });
  const auto all =
      exchange(*connect(), "key", 1, 3, "mine", soon(), absl::Milliseconds(30));
  base::set_log_sink({});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(*all, ElementsAre("late", "mine", "late"));
  base::MutexLock lock(logged.mutex);
  ASSERT_GE(logged.lines.size(), 2u);
  EXPECT_THAT(logged.lines[0], HasSubstr("rank 1"));
  EXPECT_THAT(logged.lines[0], HasSubstr("\"key\""));
  EXPECT_THAT(logged.lines[0], HasSubstr("ranks 0, 2 of 3"));
}

TEST_P(Exchange, WrongRankOrSize) {
  const auto store = connect();
  const struct { int rank, size; } cases[] = {{-1, 2}, {2, 2}, {0, 0}, {0, -1}};
  for (const auto& bad : cases) {
    const auto all = exchange(*store, "key", bad.rank, bad.size, "", soon());
    EXPECT_EQ(error_reason(all.status()), Reason::kInvalidArgument);
    EXPECT_THAT(std::string(all.status().message()),
                HasSubstr(absl::StrCat(bad.rank)));
  }
}

TEST_P(Exchange, BadKeyAndBlobLeaveNothing) {
  const auto store = connect();
  const std::string long_key(Store::kMaxKeyBytes, 'k');
  EXPECT_EQ(error_reason(exchange(*store, long_key, 0, 1, "", soon()).status()),
            Reason::kInvalidArgument);
  const std::string long_blob(Store::kMaxValueBytes + 1, 'b');
  EXPECT_EQ(
      error_reason(exchange(*store, "key", 0, 1, long_blob, soon()).status()),
      Reason::kInvalidArgument);
  expect_no_key("key", 1);
}

TEST_P(Exchange, PassedDeadline) {
  const auto all =
      exchange(*connect(), "key", 0, 2, "", Deadline::after(absl::Seconds(-1)));
  EXPECT_EQ(error_reason(all.status()), Reason::kTimedOut);
  expect_no_key("key", 2);
}

}  // namespace
}  // namespace distwrap::store
