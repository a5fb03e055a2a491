// How a wait ends: by the word, by a ring, by a failure, or by its deadline.
#include "hostmem/wait.h"

#include "sdk/fail.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace dw_hostmem {
namespace {

int64_t now_ns(void* /*self*/) {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

dw_host_api host_with_clock() {
  dw_host_api host = {};
  host.now_ns = now_ns;
  return host;
}
const dw_host_api kHost = host_with_clock();

class WordWait final : public Wait {
 public:
  WordWait(const std::atomic<int>& word, dw_sdk::Yielding* yielding)
      : Wait(&kHost, yielding, 2), word_(word) {}

  std::atomic<int32_t> failure = DW_OK, lost = DW_OK;
  int sleeps = 0;

 private:
  bool look(int times) override {
    for (; times > 0; --times)
      if (word_.load(std::memory_order_acquire) != 0) return true;
    return false;
  }
  int32_t check(dw_error* error) override { return fail(failure, error); }
  int32_t look_for_lost(dw_error* error) override { return fail(lost, error); }
  int32_t fail_late(dw_error* error) override {
    return fail(DW_DEADLINE_EXCEEDED, error);
  }
  bool gives_way() override { return false; }
  void before_sleep() override { ++sleeps; }

  static int32_t fail(int32_t code, dw_error* error) {
    return code == DW_OK ? code : dw_fail(error, code, 0, -1, 0, "as told");
  }

  const std::atomic<int>& word_;
};

class WaitTest : public ::testing::Test {
 protected:
  int32_t run(int64_t timeout_ns) {
    Limit limit(0, timeout_ns);
    return wait_.run({sleepers_, bell_}, limit, &error_);
  }
  void sleep_until_somebody_sleeps() {
    while (sleepers_.load() == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::atomic<int> word_ = 0;
  std::atomic<uint32_t> sleepers_ = 0, bell_ = 0;
  dw_sdk::Yielding yielding_;
  WordWait wait_{word_, &yielding_};
  dw_error error_ = {};
};

TEST_F(WaitTest, EndsAtOnceWhenTheWordIsThere) {
  word_ = 1;
  EXPECT_EQ(run(0), DW_OK);
  EXPECT_EQ(wait_.sleeps, 0);
}

TEST_F(WaitTest, ASleeperIsWokenByTheWriter) {
  std::thread writer([this] {
    sleep_until_somebody_sleeps();
    word_.store(1, std::memory_order_release);
    wake({sleepers_, bell_});
  });
  EXPECT_EQ(run(0), DW_OK);
  writer.join();
  EXPECT_EQ(sleepers_, 0u);
}

TEST_F(WaitTest, ASleeperLooksAgainWithoutARing) {
  std::thread writer([this] {
    sleep_until_somebody_sleeps();
    word_.store(1, std::memory_order_release);
  });
  EXPECT_EQ(run(0), DW_OK);
  writer.join();
}

TEST_F(WaitTest, EndsByItsDeadline) {
  EXPECT_EQ(run(5'000'000), DW_DEADLINE_EXCEEDED);
  EXPECT_STREQ(error_.text, "as told");
}

TEST_F(WaitTest, EndsByAFailureOrALostPeer) {
  wait_.lost = DW_UNAVAILABLE;
  EXPECT_EQ(run(0), DW_UNAVAILABLE);
  wait_.failure = DW_ABORTED;
  EXPECT_EQ(run(0), DW_ABORTED);
}

TEST(LimitTest, CountsATimeoutFromTheFirstReading) {
  Limit deadline(100, 7);
  EXPECT_EQ(deadline.at(50), 100);
  Limit timeout(0, 7);
  EXPECT_EQ(timeout.at(50), 57);
  EXPECT_EQ(timeout.at(60), 57);
  Limit never(0, 0);
  EXPECT_EQ(never.at(50), 0);
  Limit endless(0, INT64_MAX);
  EXPECT_EQ(endless.at(50), INT64_MAX);
}

}  // namespace
}  // namespace dw_hostmem
