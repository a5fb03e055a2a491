#include "comm/setup.h"

#include "base/error.h"
#include "unit/comm/communicator_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace distwrap::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BuildCommunicator, RoundsGoOnUntilDone) {
  FakeBackend fake;
  fake.step = [](int round, dw_error*) { return round < 3 ? DW_OK : DW_DONE; };
  const auto backend = fake.open();
  const auto store = Store::in_memory();
  const absl::StatusOr<dw_comm*> built =
      build_communicator(*backend, *store, {.group = "g"}, Deadline::never());
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(fake.cancels, 0);
  backend->api().comm_destroy(*built, 0, nullptr);
}

TEST(BuildCommunicator, AFailureOfOneRankFailsAll) {
  FakeBackend fake;
  std::atomic<int> steps{0};
  fake.step = [&](int, dw_error* error) {
    if (steps++ > 0) return DW_DONE;
    set_error(error, DW_REASON_OUT_OF_MEMORY, -1, "no memory");
    return DW_RESOURCE_EXHAUSTED;
  };
  const auto backend = fake.open();
  const auto store = Store::in_memory();
  absl::Status statuses[2];
  std::thread ranks[2];
  for (int r : {0, 1})
    ranks[r] = std::thread([&, r] {
      statuses[r] = build_communicator(*backend, *store,
                                       {.group = "g", .rank = r, .size = 2},
                                       Deadline::after(absl::Seconds(30)))
                        .status();
    });
  for (std::thread& rank : ranks) rank.join();
  const int failed = error_reason(statuses[0]) == Reason::kOutOfMemory ? 0 : 1;
  EXPECT_EQ(error_reason(statuses[failed]), Reason::kOutOfMemory)
      << statuses[failed];
  const absl::Status& other = statuses[1 - failed];
  EXPECT_EQ(error_reason(other), Reason::kAborted) << other;
  EXPECT_THAT(error_info(other)->ranks, ElementsAre(failed));
  EXPECT_THAT(error_info(other)->cause, HasSubstr("no memory"));
  EXPECT_EQ(fake.destroys, 1) << "what the other had built";
}

// In memory until it dies.
class MortalStore final : public Store {
 public:
  void die() { dead_ = true; }
  absl::Status set(absl::string_view key, absl::string_view value,
                   Deadline deadline) override {
    return dead_ ? gone() : below_->set(key, value, deadline);
  }
  absl::StatusOr<std::string> get(absl::string_view key,
                                  Deadline deadline) override {
    if (dead_) return gone();
    return below_->get(key, deadline);
  }
  absl::Status wait(const std::vector<std::string>& keys,
                    Deadline deadline) override {
    return dead_ ? gone() : below_->wait(keys, deadline);
  }
  absl::StatusOr<int64_t> add(absl::string_view key, int64_t delta,
                              Deadline deadline) override {
    if (dead_) return gone();
    return below_->add(key, delta, deadline);
  }
  absl::StatusOr<std::string> compare_set(absl::string_view key,
                                          absl::string_view expected,
                                          absl::string_view desired,
                                          Deadline deadline) override {
    if (dead_) return gone();
    return below_->compare_set(key, expected, desired, deadline);
  }
  absl::StatusOr<bool> delete_key(absl::string_view key,
                                  Deadline deadline) override {
    if (dead_) return gone();
    return below_->delete_key(key, deadline);
  }
  std::string address() const override { return "mortal"; }

 private:
  static absl::Status gone() {
    return base::make_error({.reason = Reason::kStoreUnreachable,
                             .what = "the store is gone",
                             .op = "store",
                             .next_step = "see why"});
  }
  const std::shared_ptr<Store> below_ = Store::in_memory();
  bool dead_ = false;
};

// The backend's own error is only a consequence.
TEST(BuildCommunicator, ADeadStoreIsTheCauseOfWhatBreaks) {
  for (const bool is_dead : {true, false}) {
    FakeBackend fake;
    MortalStore store;
    fake.step = [&](int, dw_error* error) {
      if (is_dead) store.die();
      set_error(error, DW_REASON_BACKEND_FAILED, -1, "reset by peer");
      return DW_UNAVAILABLE;
    };
    const auto backend = fake.open();
    const absl::Status status =
        build_communicator(*backend, store, {.group = "g"}, Deadline::never())
            .status();
    EXPECT_EQ(error_reason(status),
              is_dead ? Reason::kStoreUnreachable : Reason::kBackendFailed)
        << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("reset by peer"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"g\""));
    EXPECT_THAT(std::string(status.message()), HasSubstr("Next: "));
  }
}

TEST(BuildCommunicator, AMissingRankIsNamedAndTheSetupCancelled) {
  FakeBackend fake;
  const auto backend = fake.open();
  const auto store = Store::in_memory();
  const absl::Status status =
      build_communicator(*backend, *store, {.group = "g", .rank = 0, .size = 2},
                         Deadline::after(absl::Milliseconds(50)))
          .status();
  EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
  EXPECT_THAT(error_info(status)->ranks, ElementsAre(1));
  EXPECT_EQ(fake.cancels, 1);
}

}  // namespace
}  // namespace distwrap::comm
