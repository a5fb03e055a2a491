// Windows without faults: the rules of lessons W2, W3, W4 and W6, and every
// call.
#include "ranks/window_ranks.h"

#include <absl/time/clock.h>

#include <numeric>
#include <thread>

namespace distwrap::testing {
namespace {

class Windows : public WindowRanks {};
DISTWRAP_WINDOW_BACKENDS(Windows);

// A put does not signal by itself, and no round sees the values of another.
TEST_P(Windows, EveryRoundSeesItsOwnValues) {
  run(3, [](int me) {
    const Window window = make_window({.count = 16, .dtype = DType::kF32});
    const Peer next = Peer::group((me + 1) % 3);
    const int before = (me + 2) % 3;
    for (uint64_t round = 1; round <= 10; ++round) {
      const auto value = [&](int rank) {
        return static_cast<float>(rank * 100) + static_cast<float>(round);
      };
      Floats half(4, -value(me)), whole(4, value(me));
      expect_ok(window.put(TensorView(half), next, 4));
      expect_ok(window.put_signal(TensorView(whole), next, 4, 2, round,
                                  SignalHow::kSet));
      expect_ok(window.wait_signal(2, Compare::kGe, round));
      EXPECT_EQ(window.memory_of<float>()[4], value(before));
      EXPECT_EQ(window.memory_of<float>()[7], value(before));
      EXPECT_EQ(window.memory_of<float>()[8], 0);
      EXPECT_EQ(whole, Floats(4, value(me)));
      // The next round's puts come after all ranks have checked.
      expect_ok(barrier());
    }
    expect_ok(window.destroy());
  });
}

// Signals of one window do not wake waits of another, for slots and pairs.
TEST_P(Windows, TwoInterleavedKeepTheirSignalsApart) {
  run(2, [](int me) {
    const Window a = make_window({.count = 4, .dtype = DType::kI64});
    const Window b = make_window({.count = 4, .dtype = DType::kI64});
    const Peer other = Peer::group(1 - me);
    for (int64_t round = 1; round <= 10; ++round) {
      std::vector<int64_t> x = {round}, y = {-round};
      const auto number = static_cast<uint64_t>(round);
      expect_ok(
          a.put_signal(TensorView(x), other, 0, 0, number, SignalHow::kSet));
      expect_ok(a.signal(other));
      expect_ok(a.wait_signal(0, Compare::kEq, number));
      EXPECT_EQ(a.memory_of<int64_t>()[0], round);
      // None of it was for b.
      const CallOptions soon{.timeout = absl::Milliseconds(5)};
      expect_reason(b.wait_signal(0, Compare::kEq, number, soon).status(),
                    Reason::kTimedOut);
      expect_reason(b.wait_signal(other, soon).status(), Reason::kTimedOut);
      expect_ok(barrier());
      expect_ok(
          b.put_signal(TensorView(y), other, 0, 0, number, SignalHow::kSet));
      expect_ok(b.signal(other));
      expect_ok(b.wait_signal(0, Compare::kEq, number));
      expect_ok(b.wait_signal(other));
      EXPECT_EQ(b.memory_of<int64_t>()[0], -round);
      EXPECT_EQ(a.memory_of<int64_t>()[0], round);
      expect_ok(a.wait_signal(other));
      expect_ok(barrier());
    }
    expect_ok(b.destroy());
    expect_ok(a.destroy());
  });
}

// Rank r has 8 (r + 1) elements; even ranks have floats, odd ones integers of
// eight bytes. Offsets count the target's elements and are checked against the
// target's size.
TEST_P(Windows, PartsOfUnequalSizesAndTypes) {
  run(4, [](int me) {
    const auto count = [](int rank) { return int64_t{8} * (rank + 1); };
    const Window window = make_window(
        {.count = count(me), .dtype = me % 2 == 0 ? DType::kF32 : DType::kI64});
    for (int target = 0; target < 4; ++target) {
      const Peer peer = Peer::group(target);
      const absl::StatusOr<WindowAttr> attr = window.get_attr(peer);
      ASSERT_TRUE(attr.ok()) << attr.status();
      EXPECT_EQ(attr->count, count(target));
      EXPECT_EQ(attr->bytes, count(target) * (target % 2 == 0 ? 4 : 8));
      // Each rank writes two elements of its own; the last rank writes the last
      // ones.
      const int64_t at = count(target) - 2 * (4 - me);
      Floats f(2, static_cast<float>(me + 1));
      std::vector<int64_t> i(2, -me - 1);
      const bool floats = target % 2 == 0;
      const TensorView two = floats ? TensorView(f) : TensorView(i);
      expect_ok(window.put(two, peer, at));
      expect_reason(window.put(two, peer, count(target) - 1).status(),
                    Reason::kInvalidArgument, "beyond the target's part");
      expect_reason(window.get(two, peer, count(target)).status(),
                    Reason::kInvalidArgument, "beyond");
      const TensorView wrong = floats ? TensorView(i) : TensorView(f);
      expect_reason(window.put(wrong, peer, 0).status(),
                    Reason::kInvalidArgument, "element types differ");
    }
    expect_ok(window.flush());
    expect_ok(barrier());
    for (int from = 0; from < 4; ++from) {
      const auto at = static_cast<size_t>(count(me) - 2 * (4 - from));
      for (size_t k = 0; k < 2; ++k)
        if (me % 2 == 0)
          EXPECT_EQ(window.memory_of<float>()[at + k],
                    static_cast<float>(from + 1));
        else
          EXPECT_EQ(window.memory_of<int64_t>()[at + k], -from - 1);
    }
    // Parts of most ranks are empty.
    const Window few =
        make_window({.count = me == 2 ? 1 : 0, .dtype = DType::kU64});
    if (me != 2) {
      EXPECT_EQ(*few.fetch_add(uint64_t{0}, Peer::group(2), 0) & 0, 0u);
      std::vector<uint64_t> one(1);
      expect_reason(few.get(TensorView(one), Peer::group(me), 0).status(),
                    Reason::kInvalidArgument);
      expect_ok(few.get(TensorView(one.data(), 0), Peer::group(me), 0));
    }
    expect_ok(few.destroy());
    expect_ok(window.destroy());
  });
}

TEST_P(Windows, SignalsSetAddAndCompare) {
  run(2, [](int me) {
    const Window window = make_window({.signals = 8});
    const Peer other = Peer::group(1 - me);
    if (me == 0) {
      expect_ok(window.signal(other, 0, 5, SignalHow::kSet));
      expect_ok(window.signal(other, 0, 3, SignalHow::kAdd));
      expect_ok(window.signal(other, 7, ~uint64_t{0}, SignalHow::kSet));
      expect_ok(window.wait_signal(1, Compare::kNe, 0));
    } else {
      expect_ok(window.wait_signal(7, Compare::kGt, uint64_t{1} << 63));
      expect_ok(window.wait_signal(0, Compare::kEq, 8));
      expect_ok(window.wait_signal(0, Compare::kNe, 5));
      expect_ok(window.wait_signal(0, Compare::kLt, 9));
      expect_ok(window.wait_signal(0, Compare::kLe, 8));
      expect_ok(window.wait_signal(0, Compare::kGe, 8));
      expect_ok(window.wait_signal(3, Compare::kEq, 0));
      expect_ok(window.signal(other, 1, 1, SignalHow::kAdd));
    }
    // A signal of a rank to itself.
    expect_ok(window.signal(Peer::group(me), 2, 9, SignalHow::kSet));
    expect_ok(window.wait_signal(2, Compare::kEq, 9));
    expect_ok(window.signal(Peer::group(me)));
    expect_ok(window.wait_signal(Peer::group(me)));
    expect_ok(window.destroy());
  });
}

// A wait consumes one signal of its pair, and none of another pair.
TEST_P(Windows, CountedSignalsAreConsumedOneByOne) {
  run(3, [](int me) {
    const Window window = make_window({.signals = 0});
    constexpr int kTimes = 20;
    for (int other = 0; other < 3; ++other)
      for (int i = 0; i < kTimes + other; ++i)
        expect_ok(window.signal(Peer::group(other)));
    for (int other = 0; other < 3; ++other)
      for (int i = 0; i < kTimes + me; ++i)
        expect_ok(window.wait_signal(Peer::group(other)));
    for (int other = 0; other < 3; ++other)
      expect_reason(window
                        .wait_signal(Peer::group(other),
                                     {.timeout = absl::Milliseconds(2)})
                        .status(),
                    Reason::kTimedOut);
    expect_reason(window.wait_signal(0, Compare::kEq, 0).status(),
                  Reason::kInvalidArgument, "no such signal");
    expect_ok(window.destroy());
  });
}

// Memory that the caller brings.
TEST_P(Windows, OverTheCallersMemory) {
  run(3, [](int me) {
    Padded mine(64, 0);
    const Window window = make_window({.memory = mine.view()});
    EXPECT_EQ(window.memory().data(), mine.data());
    const Peer next = Peer::group((me + 1) % 3);
    Floats x(16, of_rank(me)), y(16);
    expect_ok(
        window.put_signal(TensorView(x), next, 32, 1, 1, SignalHow::kSet));
    expect_ok(window.put(TensorView(x), Peer::group(me), 0));
    expect_ok(window.wait_signal(1, Compare::kEq, 1));
    mine.expect(of_rank((me + 2) % 3), 32, 16);
    mine.expect(of_rank(me), 0, 16);
    mine.expect(0, 16, 16);
    expect_ok(window.get(TensorView(y), next, 32));
    EXPECT_EQ(y, x);
    expect_ok(window.destroy());
    mine.expect(0, 48, 16);
  });
}

// Elements of a type that no network card adds, and more of them than one
// message holds. Only shm has no atomics on memory that it did not allocate.
TEST_P(Windows, AtomicsOnTheCallersMemory) {
  const bool refused = GetParam() == "shm";
  run(3, [refused](int me) {
    constexpr size_t kCount = 70'000;
    std::vector<double> mine(kCount, 1);
    const Window window = make_window({.memory = TensorView(mine)});
    const Peer first = Peer::group(0);
    const std::vector<double> x(kCount, of_rank(me));
    const absl::StatusOr<Work> added =
        window.accumulate(TensorView(x), first, 0, ReduceOp::kSum);
    if (refused) {
      expect_reason(added.status(), Reason::kUnsupported, "brought its own");
      expect_ok(window.destroy());
      EXPECT_EQ(mine, std::vector<double>(kCount, 1));
      return;
    }
    expect_ok(added);
    expect_ok(window.flush());
    expect_ok(barrier());
    const double sum = 1 + of_rank(0) + of_rank(1) + of_rank(2);
    std::vector<double> old(kCount), least(kCount, -2);
    if (me == 1) {
      expect_ok(window.fetch_op(TensorView(old), TensorView(least), first, 0,
                                ReduceOp::kMin));
      EXPECT_EQ(old, std::vector<double>(kCount, sum));
      EXPECT_EQ(*window.compare_swap(sum, 5.0, first, kCount - 1), -2);
      EXPECT_EQ(*window.compare_swap(-2.0, 5.0, first, kCount - 1), -2);
    }
    expect_ok(barrier());
    if (me == 0) {
      EXPECT_EQ(mine[kCount - 2], -2);
      EXPECT_EQ(mine[kCount - 1], 5);
    }
    expect_ok(window.destroy());
  });
}

// Large moves, in bytes of any type.
TEST_P(Windows, LargeMovesOfAnyType) {
  run(2, [](int me) {
    constexpr int64_t kCount = 3 << 18;
    const Window window = make_window({.count = 4 * kCount + 3});
    std::vector<uint32_t> x(kCount), y(kCount);
    std::iota(x.begin(), x.end(), static_cast<uint32_t>(me) << 24);
    const Peer other = Peer::group(1 - me);
    // Not even aligned.
    expect_ok(
        window.put_signal(TensorView(x), other, 3, 0, 1, SignalHow::kAdd));
    expect_ok(window.wait_signal(0, Compare::kGe, 1));
    expect_ok(window.get(TensorView(y), Peer::group(me), 3));
    EXPECT_EQ(y[kCount - 1],
              (static_cast<uint32_t>(1 - me) << 24) + kCount - 1);
    expect_ok(window.get(TensorView(y), other, 3));
    EXPECT_EQ(y, x);
    expect_ok(window.destroy());
  });
}

TEST_P(Windows, OfAGroupOfOneRank) {
  run(1, [](int) {
    const Window window = make_window({.count = 2, .dtype = DType::kU64});
    const Peer self = Peer::global(0);
    EXPECT_EQ(*window.fetch_add(uint64_t{5}, self, 1), 0u);
    std::thread later([&] {
      absl::SleepFor(absl::Milliseconds(20));
      expect_ok(window.signal(self, 3, 1, SignalHow::kSet));
    });
    const absl::Time began = absl::Now();
    expect_ok(window.wait_signal(3, Compare::kEq, 1));
    // Far below the group's timeout, at which the failure would be noticed in
    // any case.
    EXPECT_LT(absl::Now() - began, absl::Seconds(20));
    later.join();
    EXPECT_EQ(window.memory_of<uint64_t>()[1], 5u);
    expect_ok(window.destroy());
  });
}

// Ranks of a group other than the world; targets in either numbering.
TEST_P(Windows, OfAGroupThatWasSplit) {
  if (apart()) GTEST_SKIP() << "splits want equal hints";
  run(4, [](int me) {
    const auto group = split_group({.split_ranks = {{3, 1}, {0, 2}}});
    ASSERT_TRUE(group.ok()) << group.status();
    const Window window =
        make_window({.group = *group, .count = 2, .dtype = DType::kI32});
    const std::vector<int> x = {me + 1};
    const int other = me == 3 ? 1 : me == 1 ? 3 : me == 0 ? 2 : 0;
    expect_ok(window.put_signal(TensorView(x), Peer::global(other), 0, 0, 1,
                                SignalHow::kAdd));
    expect_ok(window.put_signal(TensorView(x), Peer::group(1 - group->rank()),
                                1, 0, 1, SignalHow::kAdd));
    expect_ok(window.wait_signal(0, Compare::kEq, 2));
    EXPECT_EQ(copy_of<int>(window), std::vector<int>(2, other + 1));
    const int stranger = me == 0 || me == 2 ? 1 : 0;
    expect_reason(window.signal(Peer::global(stranger)).status(),
                  Reason::kRankNotMember);
    expect_ok(window.destroy());
    expect_ok(destroy_process_group(*group));
  });
}

TEST_P(Windows, AsynchronousCallsComplete) {
  run(2, [](int me) {
    const Window window = make_window({.count = 64, .dtype = DType::kF32});
    const Peer other = Peer::group(1 - me);
    Floats x(32, of_rank(me)), y(32, -1);
    const CallOptions async{.async = true};
    const auto put = window.put(TensorView(x), other, 0, async);
    const auto more = window.put_signal(TensorView(x), other, 32, 0, 1,
                                        SignalHow::kAdd, async);
    const auto flush = window.flush({}, async);
    expect_ok(put);
    expect_ok(more);
    expect_ok(flush);
    expect_ok(window.wait_signal(0, Compare::kEq, 1));
    expect_ok(window.get(TensorView(y), other, 16, async));
    EXPECT_EQ(y, x);
    EXPECT_EQ(copy_of<float>(window), Floats(64, of_rank(1 - me)));
    expect_ok(window.fence(async));
    expect_ok(window.destroy());
  });
}

// Mapped parts can be loaded and stored.
TEST_P(Windows, MappedPartsAreTheParts) {
  run(2, [](int me) {
    const Window window = make_window({.count = 4, .dtype = DType::kU64});
    const Peer other = Peer::group(1 - me);
    const absl::StatusOr<TensorView> own = window.map_remote(Peer::group(me));
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_EQ(own->data(), window.memory().data());
    const absl::StatusOr<TensorView> theirs = window.map_remote(other);
    const WindowAccess access = window.get_attr(other)->access;
    EXPECT_EQ(theirs.ok(), access == WindowAccess::kUnified);
    if (theirs.ok()) {
      static_cast<uint64_t*>(theirs->data())[2] =
          static_cast<uint64_t>(me) + 70;
      expect_ok(window.signal(other));
      expect_ok(window.wait_signal(other));
      EXPECT_EQ(window.memory_of<uint64_t>()[2],
                static_cast<uint64_t>(1 - me) + 70);
    } else {
      expect_reason(theirs.status(), Reason::kUnsupported);
    }
    expect_ok(window.destroy());
  });
}

}  // namespace
}  // namespace distwrap::testing
