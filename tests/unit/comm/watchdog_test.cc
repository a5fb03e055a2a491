#include "comm/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace distwrap::comm {
namespace {

class Counter : public Watchdog::Watch {
 public:
  explicit Counter(int again = 0) : again_(again) {}

  Deadline expired() override {
    base::MutexLock lock(mutex_);
    ++fired_;
    changed_.notify_all();
    return again_-- > 0 ? Deadline::after(absl::Milliseconds(1))
                        : Deadline::never();
  }
  void wait_for(int n) {
    base::MutexLock lock(mutex_);
    while (fired_ < n) changed_.wait(mutex_);
  }
  int fired() {
    base::MutexLock lock(mutex_);
    return fired_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  int fired_ ABSL_GUARDED_BY(mutex_) = 0;
  int again_ ABSL_GUARDED_BY(mutex_);
};

TEST(Watchdog, FiresOncePerDeadline) {
  const std::shared_ptr<Watchdog> kept = *Watchdog::make();
  Watchdog& dog = *kept;
  Counter watch;
  dog.add(watch, Deadline::after(absl::Milliseconds(1)));
  watch.wait_for(1);
  dog.remove(watch);
  EXPECT_EQ(watch.fired(), 1);
}

TEST(Watchdog, FiresAgainWhenAsked) {
  const std::shared_ptr<Watchdog> kept = *Watchdog::make();
  Watchdog& dog = *kept;
  Counter watch(2);
  dog.add(watch, Deadline::after(absl::ZeroDuration()));
  watch.wait_for(3);
  dog.remove(watch);
  EXPECT_EQ(watch.fired(), 3);
}

TEST(Watchdog, RemovedInTimeNeverFires) {
  const std::shared_ptr<Watchdog> kept = *Watchdog::make();
  Watchdog& dog = *kept;
  Counter watch, later;
  dog.add(watch, Deadline::after(absl::Hours(1)));
  dog.remove(watch);
  dog.add(later, Deadline::after(absl::Milliseconds(5)));
  later.wait_for(1);
  EXPECT_EQ(watch.fired(), 0);
  dog.remove(later);
}

TEST(Watchdog, AnEarlierDeadlineOvertakesALaterOne) {
  const std::shared_ptr<Watchdog> kept = *Watchdog::make();
  Watchdog& dog = *kept;
  Counter late, soon;
  dog.add(late, Deadline::after(absl::Hours(1)));
  dog.add(soon, Deadline::after(absl::Milliseconds(1)));
  soon.wait_for(1);
  EXPECT_EQ(late.fired(), 0);
  dog.remove(late);
  dog.remove(soon);
}

// Otherwise every short operation would cost a switch to the watchdog's thread
// and back.
TEST(Watchdog, AStreamOfShortOperationsWakesItOnce) {
  const std::shared_ptr<Watchdog> kept = *Watchdog::make();
  Watchdog& dog = *kept;
  Counter watch;
  const Deadline first = Deadline::after(absl::Hours(1));
  for (int i = 0; i < 1000; ++i) {
    dog.add(watch, Deadline::at_ns(first.ns() + i));
    dog.remove(watch);
    if (i % 100 == 0)  // the thread gets its chance to look
      std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_EQ(dog.wake_ups(), 1);
}

// A watch may die as soon as remove has returned.
TEST(Watchdog, RemoveWaitsForARunningCall) {
  const std::shared_ptr<Watchdog> kept = *Watchdog::make();
  Watchdog& dog = *kept;
  for (int i = 0; i < 200; ++i) {
    auto watch = std::make_unique<Counter>();
    dog.add(*watch, Deadline::after(absl::Microseconds(i % 7 * 20)));
    std::this_thread::yield();
    dog.remove(*watch);
  }
}

TEST(Watchdog, ManyThreads) {
  const std::shared_ptr<Watchdog> kept = *Watchdog::make();
  Watchdog& dog = *kept;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&dog] {
      for (int i = 0; i < 500; ++i) {
        Counter watch;
        dog.add(watch, Deadline::after(absl::Microseconds(i % 11 * 10)));
        dog.remove(watch);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace distwrap::comm
