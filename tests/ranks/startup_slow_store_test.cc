// A rank whose calls on the store take long, as on an overloaded machine.
#include "base/error.h"
#include "base/log.h"
#include "distwrap/status.h"
#include "distwrap/store.h"
#include "ranks/counting_store.h"
#include "ranks/startup_campaign.h"

#include <absl/strings/match.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace distwrap::testing {
namespace {

constexpr absl::Duration kLong = absl::Seconds(25);

// Each call takes 60 ms before anything happens.
class SlowlyReached : public Store {
 public:
  explicit SlowlyReached(std::shared_ptr<Store> inner)
      : inner_(std::move(inner)) {}

  absl::Status set(absl::string_view key, absl::string_view value,
                   Deadline deadline) override {
    if (absl::Status late = reach(deadline); !late.ok()) return late;
    return inner_->set(key, value, deadline);
  }
  absl::StatusOr<std::string> get(absl::string_view key,
                                  Deadline deadline) override {
    if (absl::Status late = reach(deadline); !late.ok()) return late;
    return inner_->get(key, deadline);
  }
  absl::Status wait(const std::vector<std::string>& keys,
                    Deadline deadline) override {
    if (absl::Status late = reach(deadline); !late.ok()) return late;
    return inner_->wait(keys, deadline);
  }
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta,
                              Deadline deadline) override {
    if (absl::Status late = reach(deadline); !late.ok()) return late;
    return inner_->add(key, delta, deadline);
  }
  absl::StatusOr<std::string> compare_set(absl::string_view key,
                                          absl::string_view expected,
                                          absl::string_view desired,
                                          Deadline deadline) override {
    if (absl::Status late = reach(deadline); !late.ok()) return late;
    return inner_->compare_set(key, expected, desired, deadline);
  }
  absl::StatusOr<bool> delete_key(absl::string_view key,
                                  Deadline deadline) override {
    if (absl::Status late = reach(deadline); !late.ok()) return late;
    return inner_->delete_key(key, deadline);
  }
  std::string address() const override { return inner_->address(); }

 private:
  static absl::Status reach(Deadline deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    if (!deadline.passed()) return absl::OkStatus();
    return base::make_error({.reason = Reason::kTimedOut, .what = "too slow"});
  }
  const std::shared_ptr<Store> inner_;
};

// No rank waits on until it reports a missing rank.
TEST(StartUpSlowStore, WhoDoesNotFitTellsThoseThatWait) {
  const std::shared_ptr<Store> store = Store::in_memory();
  std::atomic<int> reports{0};
  base::set_log_sink([&](base::LogLevel, absl::string_view) { ++reports; });
  const auto start = [&](int rank, int size, std::shared_ptr<Store> over) {
    return RankStart{.options = {.backend = "gloo",
                                 .rank = rank,
                                 .world_size = size,
                                 .store = std::move(over),
                                 .timeout = kLong,
                                 .init_timeout = kLong}};
  };
  std::vector<RankStart> ranks = {
      start(0, 2, store), start(1, 3, std::make_shared<SlowlyReached>(store))};
  ranks[1].before = [&] {
    EXPECT_TRUE(
        store->wait({"session/1/hello/0"}, Deadline::after(kLong)).ok());
  };
  const std::vector<RankEnd> ends = run_try(ranks);
  base::set_log_sink({});
  for (const RankEnd& end : ends)
    EXPECT_EQ(error_reason(end.init), Reason::kCallMismatch) << end.init;
  EXPECT_EQ(reports, 0);
}

// Lets each rank believe that it is the first, as when those before have left.
class ForgetsTerms final : public CountingStore {
 public:
  absl::StatusOr<std::string> compare_set(absl::string_view key,
                                          absl::string_view expected,
                                          absl::string_view desired,
                                          Deadline deadline) override {
    const absl::StatusOr<std::string> value =
        CountingStore::compare_set(key, expected, desired, deadline);
    return absl::EndsWith(key, "/terms") && expected.empty()
               ? std::string(desired)
               : value;
  }
};

TEST(StartUpTerms, ADifferenceThatComesLateIsFoundByItsHash) {
  const auto store = std::make_shared<ForgetsTerms>();
  std::vector<RankStart> ranks;
  for (const int rank : {0, 1})
    ranks.push_back({.options = {.backend = rank == 0 ? "gloo" : "shm",
                                 .rank = rank,
                                 .world_size = 2,
                                 .store = store,
                                 .timeout = kLong,
                                 .init_timeout = kLong}});
  for (const RankEnd& end : run_try(ranks)) {
    EXPECT_EQ(error_reason(end.init), Reason::kCallMismatch) << end.init;
    EXPECT_THAT(std::string(end.init.message()),
                ::testing::HasSubstr("ranks were started differently"));
  }
}

}  // namespace
}  // namespace distwrap::testing
