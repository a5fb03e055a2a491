#include "bench/limit.h"

#include "base/thread.h"
#include "bench/page_aligned.h"
#include "bench/runner.h"
#include "bench/statistics.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace distwrap::bench {
namespace {

constexpr int kBlocks = 15;
constexpr double kBlockUs = 1000;

std::vector<size_t> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<size_t> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void run_on(size_t core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// The cache line that goes back and forth.
struct alignas(128) Flag {
  std::atomic<uint32_t> value{0};
};

void wait_while(std::atomic<uint32_t>& flag, uint32_t old) {
  // Another process may hold the peer's core.
  for (int polls = 0; flag.load(std::memory_order_acquire) == old; ++polls) {
    if (polls > 10000) sched_yield();
  }
}

// Runs both functions, each in a thread of its own, so the caller's cores stay
// as they were. False when the system has no threads for them: then neither has
// run.
bool run_both(const std::function<void()>& one,
              const std::function<void()>& other) {
  enum Turn : uint32_t { kWait, kRun, kLeave };
  std::atomic<uint32_t> turn{kWait};
  absl::StatusOr<std::thread> first = base::start_thread("dw-bench-1", [&] {
    wait_while(turn, kWait);
    if (turn.load(std::memory_order_acquire) == kRun) one();
  });
  if (!first.ok()) return false;
  absl::StatusOr<std::thread> second = base::start_thread("dw-bench-2", other);
  turn.store(second.ok() ? kRun : kLeave, std::memory_order_release);
  if (second.ok()) second->join();
  first->join();
  return second.ok();
}

// Half of a round trip between two polling threads, in microseconds; the
// undisturbed time, since it serves as a limit. 0 without threads.
double hand_over_us(const std::vector<size_t>& cores) {
  constexpr int kTrips = 2000;  // round trips in a block
  constexpr int kTripBlocks = 9;
  Flag flag;
  double best = 0;
  const auto answer = [&] {
    run_on(cores[1]);
    for (int i = 0; i < kTrips * kTripBlocks; ++i) {
      const auto turn = static_cast<uint32_t>(2 * i);
      wait_while(flag.value, turn);
      flag.value.store(turn + 2, std::memory_order_release);
    }
  };
  const auto ask = [&] {
    run_on(cores[0]);
    uint32_t turn = 0;
    for (int block = 0; block < kTripBlocks; ++block) {
      const int64_t start = Deadline::now_ns();
      for (int i = 0; i < kTrips; ++i, turn += 2) {
        flag.value.store(turn + 1, std::memory_order_release);
        wait_while(flag.value, turn + 1);
      }
      const double each =
          static_cast<double>(Deadline::now_ns() - start) / 2000 / kTrips;
      best = block == 0 ? each : std::min(best, each);
    }
  };
  return run_both(answer, ask) ? best : 0;
}

// From the call that wakes a thread to its first step, the median. The sleeper
// is given time to fall asleep. 0 without threads.
double wake_up_us(const std::vector<size_t>& cores) {
  constexpr int kTimes = 51;
  constexpr int64_t kSleepNs = 200'000;
  Flag flag, heard;
  std::atomic<int64_t> called{0};
  std::vector<double> times;
  const auto sleep = [&] {
    run_on(cores[1]);
    for (uint32_t turn = 0; turn < kTimes; ++turn) {
      while (flag.value.load(std::memory_order_acquire) == turn) {
        syscall(SYS_futex, &flag.value, FUTEX_WAIT_PRIVATE, turn, nullptr,
                nullptr, 0);
      }
      const int64_t now = Deadline::now_ns();
      times.push_back(
          static_cast<double>(now - called.load(std::memory_order_relaxed)) /
          1000);
      heard.value.store(turn + 1, std::memory_order_release);
    }
  };
  const auto wake = [&] {
    run_on(cores[0]);
    for (uint32_t turn = 0; turn < kTimes; ++turn) {
      wait_while(heard.value, turn - 1);
      const int64_t asleep = Deadline::now_ns() + kSleepNs;
      while (Deadline::now_ns() < asleep) {
      }
      called.store(Deadline::now_ns(), std::memory_order_relaxed);
      flag.value.store(turn + 1, std::memory_order_release);
      syscall(SYS_futex, &flag.value, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr,
              0);
    }
  };
  return run_both(sleep, wake) ? median(std::move(times)) : 0;
}

}  // namespace

Latency measure_latency() {
  const std::vector<size_t> cores = usable_cores();
  if (cores.size() < 2) return {};
  return {hand_over_us(cores), wake_up_us(cores)};
}

absl::StatusOr<LimitProbe> LimitProbe::make(SideChannel& side) {
  Latency latency;
  if (side.rank() == 0) latency = measure_latency();
  std::vector<double> both = {latency.hand_over_us, latency.wake_up_us};
  const absl::Status status = side.max(both);
  if (!status.ok()) return status;
  return LimitProbe(side, {both[0], both[1]});
}

absl::StatusOr<double> LimitProbe::copy_us(int64_t bytes) {
  if (bytes == 0) return 0.0;
  const auto size = static_cast<size_t>(bytes);
  const PageAligned from = page_aligned(size), to = page_aligned(size);
  if (from == nullptr || to == nullptr)
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a copy of ", size, " bytes"));
  std::memset(from.get(), 1, size);
  const auto copy = [&](int64_t times) {
    for (int64_t i = 0; i < times; ++i) {
      std::memcpy(to.get(), from.get(), size);
      asm volatile("" : : "r"(to.get()), "r"(from.get()) : "memory");
    }
  };
  copy(1);
  const int64_t start = Deadline::now_ns();
  copy(1);
  const double once =
      std::max(0.001, static_cast<double>(Deadline::now_ns() - start) / 1000);
  std::vector<double> times(kBlocks),
      batch = {std::clamp(kBlockUs / once, 1.0, 1e6)};
  // All ranks copy equally often and at the same time.
  absl::Status status = side_->max(batch);
  const auto many = static_cast<int64_t>(batch[0]);
  if (status.ok()) status = side_->barrier();
  if (!status.ok()) return status;
  for (double& time : times) {
    const int64_t begin = Deadline::now_ns();
    copy(many);
    time = static_cast<double>(Deadline::now_ns() - begin) / 1000 /
           static_cast<double>(many);
  }
  status = side_->max(times);
  if (!status.ok()) return status;
  return median(std::move(times));
}

absl::StatusOr<double> LimitProbe::limit_us(const Spec& spec) {
  const auto copy = copy_us(moved_bytes(spec));
  if (!copy.ok()) return copy.status();
  return *copy + (spec.ranks > 1 ? latency_.hand_over_us : 0);
}

}  // namespace distwrap::bench
