// The rules of every kind of store.
#include "distwrap/store.h"

#include "distwrap/status.h"
#include "store_under_test.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/types/span.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>
#include <vector>

namespace distwrap::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AnyStore : public StoreTest {};
INSTANTIATE_TEST_SUITE_P(Stores, AnyStore, every_store(), store_name);

// Waits of these tests end at their deadline; the slack is for a loaded host.
constexpr absl::Duration kShort = absl::Milliseconds(60);
constexpr absl::Duration kSlack = absl::Seconds(2);

TEST_P(AnyStore, SetThenGet) {
  const auto store = connect();
  ASSERT_TRUE(store->set("color", "blue", soon()).ok());
  EXPECT_EQ(*store->get("color", soon()), "blue");
  ASSERT_TRUE(store->set("color", "", soon()).ok());
  EXPECT_EQ(*store->get("color", soon()), "");
}

TEST_P(AnyStore, ValuesAreBytes) {
  const auto store = connect();
  const std::string key("k\0\n\xff", 4), value("\0\x01\n\xff", 4);
  ASSERT_TRUE(store->set(key, value, soon()).ok());
  EXPECT_EQ(*store->get(key, soon()), value);
}

TEST_P(AnyStore, LimitsAreKept) {
  const auto store = connect();
  const std::string longest(Store::kMaxKeyBytes, 'k');
  ASSERT_TRUE(store->set(longest, "v", soon()).ok());
  EXPECT_EQ(*store->get(longest, soon()), "v");

  for (const std::string& key : {std::string(), longest + "k"}) {
    for (const absl::Status& status :
         {store->set(key, "v", soon()), store->get(key, soon()).status(),
          store->wait({"fine", key}, soon()),
          store->get_all({key}, soon()).status(),
          store->add(key, 1, soon()).status(),
          store->compare_set(key, "", "v", soon()).status(),
          store->delete_key(key, soon()).status()}) {
      EXPECT_EQ(error_reason(status), Reason::kInvalidArgument) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("1024"));
    }
  }
  const std::string too_long(Store::kMaxValueBytes + 1, 'v');
  EXPECT_EQ(error_reason(store->set("k", too_long, soon())),
            Reason::kInvalidArgument);
  EXPECT_EQ(
      error_reason(store->compare_set("k", "", too_long, soon()).status()),
      Reason::kInvalidArgument);
}

TEST_P(AnyStore, LongestValue) {
  const auto store = connect();
  std::string value(Store::kMaxValueBytes, 'v');
  value.back() = 'e';
  ASSERT_TRUE(store->set("k", value, soon()).ok());
  EXPECT_TRUE(*store->get("k", soon()) == value);
  // Together the values exceed the size of one answer.
  ASSERT_TRUE(store->set("l", "more", soon()).ok());
  const auto both = store->get_all({"k", "l"}, soon());
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_TRUE((*both)[0] == value && (*both)[1] == "more");
}

TEST_P(AnyStore, AddCounts) {
  const auto store = connect();
  EXPECT_EQ(*store->add("n", 5, soon()), 5);
  EXPECT_EQ(*store->add("n", -7, soon()), -2);
  EXPECT_EQ(*store->get("n", soon()), "-2");
  EXPECT_EQ(*store->add("n", 0, soon()), -2);
}

TEST_P(AnyStore, AddRefusesWhatIsNoNumber) {
  const auto store = connect();
  ASSERT_TRUE(store->set("n", "blue", soon()).ok());
  const absl::Status text = store->add("n", 1, soon()).status();
  EXPECT_EQ(error_reason(text), Reason::kInvalidArgument);
  EXPECT_THAT(std::string(text.message()), HasSubstr("\"n\""));
  EXPECT_EQ(*store->get("n", soon()), "blue");

  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(*store->add("m", most, soon()), most);
  EXPECT_EQ(error_reason(store->add("m", 1, soon()).status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(*store->add("m", 0, soon()), most);
}

TEST_P(AnyStore, CompareSet) {
  const auto store = connect();
  EXPECT_EQ(*store->compare_set("k", "other", "a", soon()), "");
  EXPECT_EQ(*store->compare_set("k", "", "a", soon()), "a");
  EXPECT_EQ(*store->compare_set("k", "", "b", soon()), "a");
  EXPECT_EQ(*store->compare_set("k", "a", "b", soon()), "b");
  EXPECT_EQ(*store->get("k", soon()), "b");
}

TEST_P(AnyStore, DeleteTellsWhetherThereWasOne) {
  const auto store = connect();
  EXPECT_FALSE(*store->delete_key("k", soon()));
  ASSERT_TRUE(store->set("k", "v", soon()).ok());
  EXPECT_TRUE(*store->delete_key("k", soon()));
  EXPECT_FALSE(*store->delete_key("k", soon()));
  EXPECT_EQ(error_reason(store->get("k", Deadline::after(kShort)).status()),
            Reason::kTimedOut);
}

TEST_P(AnyStore, GetAllKeepsTheOrder) {
  const auto store = connect();
  for (const char* key : {"a", "b", "c"})
    ASSERT_TRUE(store->set(key, absl::StrCat(key, "!"), soon()).ok());
  EXPECT_THAT(*store->get_all({"c", "a", "b", "a"}, soon()),
              ElementsAre("c!", "a!", "b!", "a!"));
  EXPECT_TRUE(store->get_all({}, soon())->empty());
  EXPECT_TRUE(store->wait({}, soon()).ok());
}

// The keys of ranks, which clients ask for as a series.
TEST_P(AnyStore, ManyWaitForTheKeysOfAllRanks) {
  constexpr int kRanks = 12;
  std::vector<std::string> keys;
  for (int rank = 0; rank < kRanks; ++rank)
    keys.push_back(absl::StrCat("word/", rank));
  const auto first = connect();
  ASSERT_TRUE(first->set(keys[3], "3!", soon()).ok());
  const absl::Status early =
      first->get_all(keys, Deadline::after(kShort)).status();
  EXPECT_EQ(
      error_info(early)->expected,
      absl::StrCat(absl::StrJoin(absl::MakeSpan(keys).subspan(0, 3), "\n"),
                   "\n", absl::StrJoin(absl::MakeSpan(keys).subspan(4), "\n")));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      const auto store = connect();
      const auto number = static_cast<size_t>(rank);
      EXPECT_TRUE(
          store->set(keys[number], absl::StrCat(rank, "!"), soon()).ok());
      // Some give up before all have come.
      if (rank % 3 == 0)
        store->wait(keys, Deadline::after(absl::Milliseconds(1))).IgnoreError();
      const auto all = store->get_all(keys, soon());
      ASSERT_TRUE(all.ok()) << all.status();
      ASSERT_EQ(all->size(), keys.size());
      for (int other = 0; other < kRanks; ++other)
        EXPECT_EQ((*all)[static_cast<size_t>(other)], absl::StrCat(other, "!"));
      EXPECT_TRUE(store->wait(keys, soon()).ok());
    });
  for (std::thread& rank : ranks) rank.join();
}

TEST_P(AnyStore, TimeOutNamesTheMissingKeys) {
  const auto store = connect();
  ASSERT_TRUE(store->set("b", "", soon()).ok());
  const int64_t start = Deadline::now_ns();
  const absl::Status status =
      store->wait({"a", "b", "c"}, Deadline::after(kShort));
  const absl::Duration took = absl::Nanoseconds(Deadline::now_ns() - start);
  const auto info = error_info(status);
  ASSERT_TRUE(info.has_value()) << status;
  EXPECT_EQ(info->reason, Reason::kTimedOut);
  EXPECT_EQ(info->expected, "a\nc");
  EXPECT_GE(took, kShort);
  EXPECT_LT(took, kShort + kSlack);
  EXPECT_GE(info->elapsed, kShort);
  EXPECT_LE(info->deadline, kShort);
  EXPECT_GT(info->deadline, absl::ZeroDuration());
  // The store still works after a time-out.
  EXPECT_EQ(*store->add("n", 1, soon()), 1);
}

TEST_P(AnyStore, PassedDeadlineDoesNothing) {
  const auto store = connect();
  const Deadline passed = Deadline::after(absl::Seconds(-1));
  for (const absl::Status& status :
       {store->set("k", "v", passed), store->get("k", passed).status(),
        store->wait({"k"}, passed), store->add("k", 1, passed).status(),
        store->compare_set("k", "", "v", passed).status(),
        store->delete_key("k", passed).status()})
    EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
  EXPECT_FALSE(*store->delete_key("k", soon()));
}

TEST_P(AnyStore, GetWaitsForAnotherThread) {
  const auto store = connect();
  std::atomic<bool> got = false;
  std::thread reader([&] {
    const auto value = store->get("late", soon());
    EXPECT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(value.value_or(""), "here");
    got = true;
  });
  // The waiting call delays none of these calls, which use the same object.
  for (int i = 1; i <= 50; ++i) EXPECT_EQ(*store->add("n", 1, soon()), i);
  EXPECT_FALSE(got);
  ASSERT_TRUE(store->set("late", "here", soon()).ok());
  reader.join();
}

TEST_P(AnyStore, ManyWaitersOneKey) {
  constexpr int kWaiters = 8;
  std::vector<std::thread> waiters;
  std::atomic<int> arrived = 0, woken = 0;
  for (int i = 0; i < kWaiters; ++i)
    waiters.emplace_back([&, i] {
      const auto store = connect();
      ++arrived;
      const absl::Status status =
          store->wait({"go", absl::StrCat("own", i)}, soon());
      EXPECT_TRUE(status.ok()) << status;
      ++woken;
    });
  const auto store = connect();
  while (arrived < kWaiters) std::this_thread::yield();
  ASSERT_TRUE(store->set("go", "", soon()).ok());
  EXPECT_EQ(woken, 0);
  for (int i = 0; i < kWaiters; ++i)
    ASSERT_TRUE(store->set(absl::StrCat("own", i), "", soon()).ok());
  for (std::thread& waiter : waiters) waiter.join();
}

TEST_P(AnyStore, KeyThatGoesAgainIsAwaitedAgain) {
  const auto store = connect();
  std::thread waiter([&] {
    const absl::Status status = store->wait({"a", "b"}, soon());
    EXPECT_TRUE(status.ok()) << status;
    // The two keys exist at the end, however often one was deleted.
    EXPECT_TRUE(store->get("a", soon()).ok());
  });
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(store->set("a", "", soon()).ok());
    ASSERT_TRUE(*store->delete_key("a", soon()));
  }
  ASSERT_TRUE(store->set("b", "", soon()).ok());
  ASSERT_TRUE(store->set("a", "", soon()).ok());
  waiter.join();
}

TEST_P(AnyStore, ConcurrentAddsAllCount) {
  constexpr int kThreads = 8, kEach = 100;
  const auto shared = connect();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      // Half of the threads share one object.
      const auto store = t % 2 == 0 ? shared : connect();
      for (int i = 0; i < kEach; ++i)
        EXPECT_TRUE(store->add("n", 1, soon()).ok());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*shared->add("n", 0, soon()), kThreads * kEach);
}

TEST_P(AnyStore, CompareSetHasOneWinner) {
  constexpr int kThreads = 8, kRounds = 20;
  std::vector<std::thread> threads;
  std::atomic<int> wins = 0;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const auto store = connect();
      const std::string mine = absl::StrCat("thread ", t);
      for (int round = 0; round < kRounds; ++round) {
        const auto now =
            store->compare_set(absl::StrCat("r", round), "", mine, soon());
        EXPECT_TRUE(now.ok()) << now.status();
        if (now.value_or("") == mine) ++wins;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wins, kRounds);
}

TEST_P(AnyStore, RanksSeeOneAnother) {
  const auto one = connect(), two = connect();
  ASSERT_TRUE(one->set("k", "v", soon()).ok());
  EXPECT_EQ(*two->get("k", soon()), "v");
  EXPECT_EQ(one->address(), two->address());
  EXPECT_FALSE(one->address().empty());
}

}  // namespace
}  // namespace distwrap::store
