#include "store/exchange.h"

#include "base/log.h"
#include "base/mutex.h"
#include "distwrap/status.h"
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
    const auto store = connect();
    for (int i = 0; i < size; ++i)
      EXPECT_FALSE(*store->delete_key(absl::StrCat(key, "/", i), soon())) << i;
    EXPECT_FALSE(*store->delete_key(absl::StrCat(key, "/present"), soon()));
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
  // Connected before the clock runs, with one deadline, and both at it before
  // either may give up.
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
  expect_no_key("key", 4);
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
    // What it waited for comes after the second report.
    if (logged.lines.size() == 2) {
      EXPECT_TRUE(store->set("key/0", "late", soon()).ok());
      EXPECT_TRUE(store->set("key/2", "late", soon()).ok());
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
