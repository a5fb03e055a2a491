#include "comm/biased_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace distwrap::comm {
namespace {

using Doing = CallGuard::Doing;
using Place = BiasedLock::Place;

class SeatTest : public ::testing::Test {
 protected:
  static Deadline soon() { return Deadline::after(absl::Milliseconds(20)); }
  static Deadline late() { return Deadline::after(absl::Seconds(60)); }
  static void in_another_thread(const std::function<void()>& body) {
    std::thread(body).join();
  }
  // One call that the calling thread makes and ends.
  Place call(Deadline deadline, bool collective = false) {
    const CallGuard inside(&object_);
    if (lock_->is_of(inside.slot())) return Place::kAlone;
    const Place place = lock_->enter(inside.slot(), collective, deadline);
    if (place == Place::kBeside) lock_->leave();
    return place;
  }
  void share(bool shares) {
    lock_ = std::make_unique<BiasedLock>(&object_, shares);
  }

  int64_t object_ = 0;
  std::unique_ptr<BiasedLock> lock_ =
      std::make_unique<BiasedLock>(&object_, true);
};

TEST_F(SeatTest, WhoComesAloneKeepsTheSeat) {
  EXPECT_EQ(call(soon()), Place::kAlone);
  const CallGuard inside(&object_);
  EXPECT_TRUE(lock_->is_of(inside.slot()));
}

TEST_F(SeatTest, ASeatIsHandedOverWhenItsOwnerIsOutside) {
  EXPECT_EQ(call(soon()), Place::kAlone);
  in_another_thread([this] {
    EXPECT_EQ(call(soon()), Place::kAlone);
    const CallGuard inside(&object_);
    EXPECT_TRUE(lock_->is_of(inside.slot())) << "the next call is short";
  });
  EXPECT_EQ(call(soon()), Place::kAlone) << "and back";
}

// Inside another object the owner is not in the way.
TEST_F(SeatTest, AnOwnerInsideAnotherObjectIsOutside) {
  EXPECT_EQ(call(soon()), Place::kAlone);
  int64_t other = 0;
  const CallGuard inside(&other);
  in_another_thread([this] { EXPECT_EQ(call(soon()), Place::kAlone); });
}

TEST_F(SeatTest, NobodyComesInBesideAnOwnerThatNeedsTheObject) {
  EXPECT_EQ(call(soon()), Place::kAlone);
  const CallGuard inside(&object_);
  in_another_thread([this] { EXPECT_EQ(call(soon()), Place::kNone); });
}

TEST_F(SeatTest, MessagesComeInBesideEverythingThatWaits) {
  EXPECT_EQ(call(soon()), Place::kAlone);
  for (const Doing doing :
       {Doing::kWaitsForMessage, Doing::kWaitsForCollective}) {
    const CallGuard inside(&object_);
    CallGuard::say(inside.slot(), &object_, doing);
    in_another_thread([this] { EXPECT_EQ(call(soon()), Place::kBeside); });
  }
}

TEST_F(SeatTest, CollectivesComeInBesideMessagesOnly) {
  EXPECT_EQ(call(soon()), Place::kAlone);
  const CallGuard inside(&object_);
  CallGuard::say(inside.slot(), &object_, Doing::kWaitsForCollective);
  in_another_thread([this] { EXPECT_EQ(call(soon(), true), Place::kNone); });
  CallGuard::say(inside.slot(), &object_, Doing::kWaitsForMessage);
  in_another_thread([this] { EXPECT_EQ(call(soon(), true), Place::kBeside); });
}

TEST_F(SeatTest, WithoutSharingAnOwnerThatWaitsIsWaitedFor) {
  share(false);
  EXPECT_EQ(call(soon()), Place::kAlone);
  std::atomic<bool> left{false};
  std::thread other;
  {
    const CallGuard inside(&object_);
    CallGuard::say(inside.slot(), &object_, Doing::kWaitsForMessage);
    in_another_thread([this] { EXPECT_EQ(call(soon()), Place::kNone); });
    other = std::thread([&] {
      EXPECT_EQ(call(late()), Place::kAlone);
      EXPECT_TRUE(left);
    });
    std::this_thread::yield();
    left = true;
  }
  other.join();
}

// While somebody is beside, all are; then the next one is alone again.
TEST_F(SeatTest, WhenAllHaveLeftTheSeatIsFreeAgain) {
  EXPECT_EQ(lock_->enter_beside(false, soon()), Place::kBeside);
  EXPECT_EQ(call(soon()), Place::kBeside);
  in_another_thread([this] { EXPECT_EQ(call(soon()), Place::kBeside); });
  lock_->leave();
  EXPECT_EQ(call(soon()), Place::kAlone);
}

// The owner itself comes back while another thread is beside.
TEST_F(SeatTest, AnOwnerThatLostTheSeatComesInBeside) {
  EXPECT_EQ(call(soon()), Place::kAlone);
  EXPECT_EQ(lock_->enter_beside(true, soon()), Place::kBeside);
  EXPECT_EQ(call(soon()), Place::kBeside);
  lock_->leave();
  in_another_thread([this] { EXPECT_EQ(call(soon()), Place::kAlone); });
}

TEST_F(SeatTest, NobodyHasASeatThatIsShut) {
  EXPECT_EQ(call(soon()), Place::kAlone);
  lock_->shut();
  EXPECT_EQ(call(soon()), Place::kBeside);
  in_another_thread([this] { EXPECT_EQ(call(soon()), Place::kBeside); });
}

// The slot of a thread that has ended goes to another, with all that is its.
TEST_F(SeatTest, TheSeatOfAnEndedThreadIsFree) {
  in_another_thread([this] { EXPECT_EQ(call(soon()), Place::kAlone); });
  EXPECT_EQ(call(soon()), Place::kAlone);
  for (int i = 0; i < 20; ++i)
    in_another_thread([this] { EXPECT_EQ(call(soon()), Place::kAlone); });
}

// The owner's uses and the uses in turn never overlap; sanitizers check it too,
// since the counters are not atomic.
TEST_F(SeatTest, OneAtATime) {
  int64_t alone_and_turns = 0;
  constexpr int kThreads = 4, kCalls = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        const CallGuard inside(&object_);
        Place place = Place::kAlone;
        if (!lock_->is_of(inside.slot()))
          place = lock_->enter(inside.slot(), false, late());
        if (place == Place::kBeside) {
          {
            base::MutexLock turn(lock_->submit_mutex());
            ++alone_and_turns;
          }
          std::this_thread::yield();
          lock_->leave();
          continue;
        }
        ASSERT_EQ(place, Place::kAlone);
        ++alone_and_turns;
        CallGuard::say(inside.slot(), &object_, Doing::kWaitsForMessage);
        if (i % 16 == t) std::this_thread::yield();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(alone_and_turns, kThreads * kCalls);
}

}  // namespace
}  // namespace distwrap::comm
