// Waits for a store that a descriptor ends.
#include "store/interrupt.h"

#include "distwrap/status.h"
#include "store/exchange.h"
#include "store_under_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

namespace distwrap::store {
namespace {

using ::testing::HasSubstr;

class Interrupts : public StoreTest {
 public:
  Interrupts() : fd_(eventfd(0, EFD_CLOEXEC)) {}
  ~Interrupts() override { close(fd_); }

 protected:
  // Makes the descriptor readable while another thread waits.
  std::thread soon_readable() {
    return std::thread([fd = fd_] {
      absl::SleepFor(absl::Milliseconds(50));
      EXPECT_EQ(eventfd_write(fd, 1), 0);
    });
  }

  const int fd_;
};
INSTANTIATE_TEST_SUITE_P(Stores, Interrupts, every_store(), store_name);

void expect_interrupted(const absl::Status& status) {
  EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("was interrupted"));
}

TEST_P(Interrupts, EndOneWait) {
  const auto store = connect();
  const Interrupt interrupt(fd_);
  std::thread other = soon_readable();
  const int64_t begin = Deadline::now_ns();
  expect_interrupted(store->get("never", soon()).status());
  EXPECT_LT(absl::Nanoseconds(Deadline::now_ns() - begin), absl::Seconds(5));
  other.join();
  // The rank can still talk to the others.
  EXPECT_TRUE(store->set("why", "interrupted", soon()).ok());
  EXPECT_EQ(*store->get("why", soon()), "interrupted");
}

TEST_P(Interrupts, EndAWaitThatBeginsLater) {
  const auto store = connect();
  ASSERT_EQ(eventfd_write(fd_, 1), 0);
  const Interrupt interrupt(fd_);
  expect_interrupted(
      store->wait({"never"}, Deadline::after(absl::InfiniteDuration())));
}

TEST_P(Interrupts, AreOfOneThreadAndOneScope) {
  const auto store = connect();
  ASSERT_EQ(eventfd_write(fd_, 1), 0);
  const auto expect_timeout = [&] {
    EXPECT_EQ(error_reason(
                  store->get("never", Deadline::after(absl::Milliseconds(60)))
                      .status()),
              Reason::kTimedOut);
  };
  {
    const Interrupt interrupt(fd_);
    std::thread(expect_timeout).join();
    const Interrupt none(std::nullopt);
    expect_timeout();
  }
  expect_timeout();
}

TEST_P(Interrupts, TellTheOtherRanksOfAnExchange) {
  const auto mine = connect(), theirs = connect();
  std::thread other([&] {
    const auto got = exchange(*theirs, "hello", 1, 3, "b", soon());
    EXPECT_EQ(error_reason(got.status()), Reason::kAborted) << got.status();
    EXPECT_THAT(std::string(got.status().message()), HasSubstr("interrupted"));
  });
  const Interrupt interrupt(fd_);
  std::thread writer = soon_readable();
  expect_interrupted(exchange(*mine, "hello", 0, 3, "a", soon()).status());
  writer.join();
  other.join();
}

// A caller may ignore the error of the wait that was interrupted.
TEST_P(Interrupts, AreNotForgottenByAnExchangeThatBeginsLater) {
  const auto store = connect();
  ASSERT_EQ(eventfd_write(fd_, 1), 0);
  const Interrupt interrupt(fd_);
  store->get("never", soon()).status().IgnoreError();
  expect_interrupted(exchange(*store, "hello", 0, 2, "a", soon()).status());
}

TEST(InterruptsOfNothing, EndTheWaitForAServer) {
  const int fd = eventfd(1, EFD_CLOEXEC);
  {
    const Interrupt interrupt(fd);
    expect_interrupted(
        Store::connect("unix:/nonexistent/store", soon()).status());
  }
  close(fd);
}

}  // namespace
}  // namespace distwrap::store
