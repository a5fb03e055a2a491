// Windows on which several ranks, or several threads of a rank, work at the
// same time, and windows on which one rank works alone: rule W6.
#include "ranks/window_ranks.h"

#include <absl/time/clock.h>

#include <atomic>
#include <thread>

namespace distwrap::testing {
namespace {

class WindowThreads : public WindowRanks {};
DISTWRAP_WINDOW_BACKENDS(WindowThreads);

// Every rank adds to and compares all parts at the same time.
TEST_P(WindowThreads, AtomicsOfAllRanksAddUp) {
  constexpr int kTimes = 200;
  run(4, [](int me) {
    const Window ints = make_window({.count = 5, .dtype = DType::kI64});
    const Window floats = make_window({.count = 3, .dtype = DType::kF64});
    const Window halves = make_window({.count = 2, .dtype = DType::kU16});
    std::vector<int64_t> ones(3, 1);
    std::vector<double> addend = {0.5, 1, -2};
    std::vector<uint16_t> bits = {static_cast<uint16_t>(1 << me), 3};
    for (int i = 0; i < kTimes; ++i)
      for (int target = 0; target < 4; ++target) {
        const Peer peer = Peer::group(target);
        ASSERT_TRUE(ints.fetch_add(int64_t{1}, peer, 0).ok());
        expect_ok(ints.accumulate(TensorView(ones), peer, 1, ReduceOp::kSum));
        expect_ok(
            floats.accumulate(TensorView(addend), peer, 0, ReduceOp::kSum));
        // A counter made of compare and swap.
        int64_t seen = 0;
        for (;;) {
          const int64_t found = *ints.compare_swap(seen, seen + 1, peer, 4);
          if (found == seen) break;
          seen = found;
        }
      }
    for (int target = 0; target < 4; ++target)
      expect_ok(halves.accumulate(TensorView(bits), Peer::group(target), 0,
                                  ReduceOp::kBor));
    expect_ok(halves.flush());
    expect_ok(floats.flush());
    expect_ok(ints.flush());
    expect_ok(barrier());
    EXPECT_EQ(copy_of<int64_t>(ints),
              std::vector<int64_t>(5, int64_t{4} * kTimes));
    EXPECT_EQ(copy_of<double>(floats),
              (std::vector<double>{2 * kTimes, 4 * kTimes, -8 * kTimes}));
    EXPECT_EQ(copy_of<uint16_t>(halves), (std::vector<uint16_t>{15, 3}));
    std::vector<int64_t> old(5), operand = {-1, 5, 1 << 20, 0, 2};
    expect_ok(barrier());
    if (me == 3) {
      expect_ok(ints.fetch_op(TensorView(old), TensorView(operand),
                              Peer::group(0), 0, ReduceOp::kMax));
      EXPECT_EQ(old, std::vector<int64_t>(5, int64_t{4} * kTimes));
      expect_ok(ints.flush(Peer::group(0)));
      expect_ok(ints.get(TensorView(old), Peer::group(0), 0));
      EXPECT_EQ(old[2], 1 << 20);
      EXPECT_EQ(old[0], int64_t{4} * kTimes);
    }
    expect_ok(ints.destroy());
    expect_ok(floats.destroy());
    expect_ok(halves.destroy());
  });
}

// Eight threads of each rank on one window, while others call on the group.
TEST_P(WindowThreads, EightThreadsAtOnce) {
  constexpr int kThreads = 8, kRounds = 50;
  run(2, [](int me) {
    const Window window =
        make_window({.count = kThreads + 1, .dtype = DType::kI64});
    const Peer other = Peer::group(1 - me);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int64_t round = 1; round <= kRounds; ++round) {
          std::vector<int64_t> x = {round * 10 + t};
          expect_ok(window.put_signal(TensorView(x), other, t, t, 1,
                                      SignalHow::kAdd));
          expect_ok(window.wait_signal(t, Compare::kGe,
                                       static_cast<uint64_t>(round)));
          ASSERT_TRUE(window.fetch_add(int64_t{1}, other, kThreads).ok());
          // The answer: the memory may be written again.
          expect_ok(window.signal(other, kThreads + t, 1, SignalHow::kAdd));
          expect_ok(window.wait_signal(kThreads + t, Compare::kGe,
                                       static_cast<uint64_t>(round)));
        }
      });
    for (int i = 0; i < kRounds; ++i) expect_ok(barrier());
    for (std::thread& thread : threads) thread.join();
    expect_ok(window.flush());
    expect_ok(barrier());
    EXPECT_EQ(window.memory_of<int64_t>()[kThreads], kThreads * kRounds);
    for (int t = 0; t < kThreads; ++t)
      EXPECT_EQ(window.memory_of<int64_t>()[static_cast<size_t>(t)],
                kRounds * 10 + t);
    expect_ok(window.destroy());
  });
}

// No call has a hidden collective: the other ranks make no call meanwhile.
TEST_P(WindowThreads, OneRankAloneCanPutAndGet) {
  std::atomic<bool> over{false};
  run(3, [&](int me) {
    const Window window = make_window({.count = 8, .dtype = DType::kU64});
    if (me == 1) {
      for (int target = 0; target < 3; ++target) {
        std::vector<uint64_t> x(8, static_cast<uint64_t>(target) + 40), y(8);
        const Peer peer = Peer::group(target);
        expect_ok(window.put(TensorView(x), peer, 0));
        expect_ok(window.flush(peer));
        expect_ok(window.get(TensorView(y), peer, 0));
        EXPECT_EQ(y, x);
        EXPECT_EQ(*window.fetch_add(uint64_t{2}, peer, 3), x[3]);
        EXPECT_EQ(*window.compare_swap(x[3] + 2, uint64_t{7}, peer, 3),
                  x[3] + 2);
        EXPECT_EQ(*window.compare_swap(x[3], uint64_t{8}, peer, 3), 7u);
      }
      over = true;
    } else {
      while (!over) absl::SleepFor(absl::Milliseconds(1));
      EXPECT_EQ(window.memory_of<uint64_t>()[3], 7u);
      EXPECT_EQ(window.memory_of<uint64_t>()[4],
                static_cast<uint64_t>(me) + 40);
    }
    expect_ok(window.destroy());
  });
}

}  // namespace
}  // namespace distwrap::testing
