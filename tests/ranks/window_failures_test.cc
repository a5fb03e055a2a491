// Windows after mistakes: the rules of lessons W1, W5 and W7, and bad input,
// which is refused before anything is sent.
#include "ranks/window_ranks.h"

#include <absl/time/clock.h>
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <thread>

namespace distwrap::testing {
namespace {

class WindowFailures : public WindowRanks {};
DISTWRAP_WINDOW_BACKENDS(WindowFailures);

constexpr CallOptions kSoon{.timeout = absl::Milliseconds(20)};

// A wait without a timeout uses the group's. A wait that reaches it may be
// repeated, and nothing else has changed.
TEST_P(WindowFailures, AWaitEndsByItsDeadlineAndBreaksNothing) {
  run(
      2,
      [](int me) {
        const Window window = make_window({.count = 1});
        const Peer other = Peer::group(1 - me);
        const absl::Time began = absl::Now();
        const absl::Status late =
            window.wait_signal(5, Compare::kGe, 1).status();
        const absl::Duration took = absl::Now() - began;
        expect_reason(late, Reason::kTimedOut, "signal 5 of rank");
        EXPECT_GE(took, absl::Milliseconds(290));
        EXPECT_EQ(error_info(late)->deadline, absl::Milliseconds(300));
        expect_reason(window.wait_signal(other, kSoon).status(),
                      Reason::kTimedOut, "did not signal in time");
        expect_reason(window
                          .wait_signal(5, Compare::kGe, 1,
                                       {.timeout = -kSoon.timeout.value()})
                          .status(),
                      Reason::kInvalidArgument);
        expect_ok(barrier());
        expect_ok(window.signal(other, 5, 1, SignalHow::kSet));
        expect_ok(window.signal(other));
        expect_ok(window.wait_signal(5, Compare::kGe, 1));
        expect_ok(window.wait_signal(other));
        expect_ok(window.destroy());
      },
      absl::Milliseconds(300));
}

TEST_P(WindowFailures, BadInputIsRefusedAndBreaksNothing) {
  run(2, [](int me) {
    const Window window = make_window({.count = 8, .dtype = DType::kI32});
    const Peer other = Peer::group(1 - me);
    std::vector<int> x(4, 1), y(4, 2);
    const TensorView in(x), out(y);
    const auto bad = Reason::kInvalidArgument;
    expect_reason(window.put(in, Peer::group(2), 0).status(), bad,
                  "not a rank");
    expect_reason(window.put(in, Peer::group(-1), 0).status(), bad,
                  "not a rank");
    expect_reason(window.put(in, {}, 0).status(), Reason::kRootMissing);
    expect_reason(window.get(out, other, -1).status(), bad, "negative");
    expect_reason(window.put(in, other, 5).status(), bad, "beyond");
    expect_reason(window.get(out, other, INT64_MAX).status(), bad, "beyond");
    expect_reason(
        window.put(TensorView(static_cast<int*>(nullptr), 1), other, 0)
            .status(),
        bad);
    const int fixed[] = {1, 2};
    expect_reason(window.get(TensorView(fixed, 2), other, 0).status(), bad,
                  "read-only");
    expect_reason(window.signal(other, 64, 1, SignalHow::kSet).status(), bad,
                  "no such signal");
    expect_reason(window.signal(other, -1, 1, SignalHow::kSet).status(), bad);
    expect_reason(
        window.signal(other, 0, 1, static_cast<SignalHow>(9)).status(), bad,
        "way to raise");
    expect_reason(
        window.put_signal(in, other, 0, 99, 1, SignalHow::kSet).status(), bad,
        "no such signal");
    expect_reason(window.wait_signal(0, static_cast<Compare>(0), 1).status(),
                  bad, "comparison");
    expect_reason(window.wait_signal(Peer::group(7)).status(), bad);
    expect_reason(window.flush(Peer::group(7)).status(), bad);
    expect_reason(window.accumulate(in, other, 0, ReduceOp::kAvg).status(),
                  Reason::kUnsupported);
    Floats f(1, 1.0f);
    expect_reason(
        window.accumulate(TensorView(f), other, 0, ReduceOp::kSum).status(),
        bad, "element types differ");
    expect_reason(
        window.fetch_op(out, TensorView(x.data(), 3), other, 0, ReduceOp::kSum)
            .status(),
        bad, "numbers of operands");
    expect_reason(window.fetch_op(in, in, other, 0, ReduceOp::kSum).status(),
                  bad, "same memory");
    expect_reason(window.compare_swap(out, in, other, 0).status(), bad,
                  "two elements");
    expect_reason(window.put(in, other, 7, {.label = "halo"}).status(), bad,
                  "halo");
    // Nothing of it was written.
    expect_ok(barrier());
    EXPECT_EQ(copy_of<int>(window), std::vector<int>(8, 0));
    EXPECT_EQ(y, std::vector<int>(4, 2));
    expect_ok(window.destroy());
  });
}

TEST_P(WindowFailures, AMisalignedPartHasNoAtomics) {
  run(2, [](int me) {
    std::vector<uint64_t> space(4);
    char* const odd = reinterpret_cast<char*>(space.data()) + 1;
    const Window window = make_window({.memory = {odd, 2, DType::kU64}});
    const Peer other = Peer::group(1 - me);
    expect_reason(window.fetch_add(uint64_t{1}, other, 0).status(),
                  Reason::kInvalidArgument, "not aligned");
    std::vector<uint64_t> x = {5};
    expect_ok(
        window.put_signal(TensorView(x), other, 1, 0, 1, SignalHow::kSet));
    expect_ok(window.wait_signal(0, Compare::kEq, 1));
    expect_ok(window.destroy());
  });
}

TEST_P(WindowFailures, OptionsThatCannotBe) {
  run(2, [](int) {
    std::vector<float> x(4);
    const auto bad = Reason::kInvalidArgument;
    expect_reason(new_window({.memory = TensorView(x), .count = 4}).status(),
                  bad, "both");
    expect_reason(new_window({.count = -1}).status(), bad);
    expect_reason(
        new_window({.count = INT64_MAX, .dtype = DType::kF64}).status(), bad);
    expect_reason(new_window({.signals = -1}).status(), bad);
    expect_reason(new_window({.signals = 1 << 20}).status(), bad);
    expect_reason(new_window({.backend = "nobody"}).status(),
                  Reason::kNoCommunicator);
    expect_reason(new_window({.timeout = absl::ZeroDuration()}).status(), bad);
    expect_reason(
        new_window({.memory = TensorView(static_cast<float*>(nullptr), 4)})
            .status(),
        bad);
    expect_reason(Window().flush().status(), Reason::kNotInitialized);
    // The ranks still agree on the next call.
    expect_ok(make_window({.count = 1}).destroy());
  });
}

TEST_P(WindowFailures, RanksThatDifferFailTogether) {
  run(3, [](int me) {
    const absl::Status status =
        new_window({.count = 4, .signals = me == 1 ? 8 : 16}).status();
    expect_reason(status, Reason::kCallMismatch, "8 signals");
    expect_ok(make_window({.count = 1}).destroy());
  });
}

TEST_P(WindowFailures, ARankThatDoesNotComeIsNamed) {
  std::atomic<int> waited{0};
  run(3, [&](int me) {
    if (me == 2) {
      while (waited < 2) absl::SleepFor(absl::Milliseconds(1));
      return;
    }
    const absl::Status status =
        new_window({.count = 4, .timeout = absl::Milliseconds(200)}).status();
    expect_reason(status, Reason::kTimedOut);
    EXPECT_EQ(error_info(status)->ranks, std::vector<int>{2}) << status;
    ++waited;
  });
}

// A handle of something that has ended is refused and never reaches a backend,
// whether the window or its group was destroyed.
TEST_P(WindowFailures, AStaleHandleIsRefused) {
  if (apart()) GTEST_SKIP() << "splits want equal hints";
  run(2, [](int me) {
    const auto group = split_group({.split_ranks = {{0, 1}}});
    ASSERT_TRUE(group.ok()) << group.status();
    const Window first = make_window({.group = *group, .count = 8});
    const Window second = make_window({.group = *group, .count = 8});
    std::vector<uint8_t> x(8, 1);
    const Peer other = Peer::group(1 - me);
    expect_ok(second.put(TensorView(x), other, 0));
    expect_ok(second.destroy());
    expect_ok(second.destroy());
    expect_reason(second.put(TensorView(x), other, 0).status(),
                  Reason::kStaleEpoch, "was destroyed");
    expect_reason(second.map_remote(other).status(), Reason::kStaleEpoch);
    expect_ok(first.put(TensorView(x), other, 0));
    expect_ok(destroy_process_group(*group));
    expect_reason(first.put(TensorView(x), other, 0).status(),
                  Reason::kStaleEpoch, "group has ended");
    expect_reason(first.wait_signal(0, Compare::kEq, 0).status(),
                  Reason::kStaleEpoch);
    expect_ok(first.destroy());
  });
}

// The end fails on all ranks or on none, and in either case no write happens
// afterwards.
TEST_P(WindowFailures, TheEndFailsOnAllRanksOrOnNone) {
  std::atomic<int> ended{0};
  run(3, [&](int me) {
    Padded mine(16, 0);
    const Window window = make_window({.memory = mine.view()});
    Floats x(16, of_rank(me));
    if (me == 2) {
      while (ended < 2) absl::SleepFor(absl::Milliseconds(1));
      // This rank cannot reach the others' memory any more, either.
      const absl::Status status =
          window.put(TensorView(x), Peer::group(0), 0).status();
      EXPECT_EQ(error_reason(status), Reason::kStaleEpoch) << status;
      expect_reason(window.destroy(absl::Milliseconds(100)), Reason::kTimedOut);
      ++ended;
    } else {
      const absl::Status status = window.destroy(absl::Milliseconds(200));
      expect_reason(status, Reason::kTimedOut);
      ++ended;
      while (ended < 3) absl::SleepFor(absl::Milliseconds(1));
      mine.expect(0);
    }
  });
}

// Calls of other threads that do not end make the end fail, and go on.
TEST_P(WindowFailures, TheEndWaitsForOwnCalls) {
  run(2, [](int me) {
    const Window window = make_window({.count = 1});
    std::thread waiter;
    std::atomic<bool> waits{false};
    if (me == 0)
      waiter = std::thread([&] {
        waits = true;
        expect_ok(window.wait_signal(0, Compare::kEq, 1));
      });
    if (me == 0) {
      while (!waits) std::this_thread::yield();
      absl::SleepFor(absl::Milliseconds(30));
    } else {
      absl::SleepFor(absl::Milliseconds(100));
      expect_ok(window.signal(Peer::group(0), 0, 1, SignalHow::kSet));
    }
    expect_ok(window.destroy());
    if (waiter.joinable()) waiter.join();
  });
}

TEST_P(WindowFailures, AnAbortEndsAWait) {
  run(2, [](int me) {
    const Window window = make_window({.count = 1});
    if (me == 0) {
      absl::SleepFor(absl::Milliseconds(50));
      expect_ok(abort());
      std::vector<uint8_t> x(1);
      const Reason reason =
          error_reason(window.put(TensorView(x), Peer::group(1), 0).status());
      EXPECT_TRUE(reason == Reason::kGroupBroken || reason == Reason::kAborted)
          << reason_name(reason);
    } else {
      const absl::Time began = absl::Now();
      const absl::Status status =
          window.wait_signal(0, Compare::kEq, 1).status();
      EXPECT_TRUE(error_reason(status) == Reason::kAborted ||
                  error_reason(status) == Reason::kPeerLost)
          << status;
      EXPECT_LT(absl::Now() - began, absl::Seconds(5));
    }
    EXPECT_FALSE(window.destroy().ok());
  });
}

// A rank that has closed its session will send no signal.
TEST_P(WindowFailures, AnOwnerThatIsGoneEndsAWait) {
  run(2, [](int me) {
    const Window window = make_window({.count = 8});
    if (me == 0) {
      const absl::Status status =
          window.wait_signal(0, Compare::kEq, 1).status();
      EXPECT_TRUE(error_reason(status) == Reason::kPeerLost ||
                  error_reason(status) == Reason::kAborted)
          << status;
      std::vector<uint8_t> x(1);
      const absl::Status put =
          window.put(TensorView(x), Peer::group(1), 0).status();
      EXPECT_FALSE(put.ok());
    }
  });
}

TEST_P(WindowFailures, HooksSeeCallsAndRefuseThem) {
  std::atomic<int> behind = 0;  // ranks behind the barrier, which a rank that
                                // gives up ends
  run(2, [&behind](int me) {
    std::vector<std::string> seen;
    bool refuses = false;
    const auto hook =
        add_hook({}, {.pre = [&](const HookedCall& call) -> absl::Status {
                   if (refuses) return absl::PermissionDeniedError("no");
                   seen.push_back(std::string(call.op) + " " +
                                  std::to_string(call.peer) + " " +
                                  std::to_string(call.offset));
                   return absl::OkStatus();
                 }});
    ASSERT_TRUE(hook.ok());
    const Window window = make_window({.count = 8});
    std::vector<uint8_t> x(1);
    const Peer other = Peer::group(1 - me);
    expect_ok(window.put(TensorView(x), other, 3));
    expect_ok(window.signal(other, 1, 1, SignalHow::kSet));
    expect_ok(window.wait_signal(1, Compare::kEq, 1));
    const std::string to = std::to_string(1 - me);
    EXPECT_THAT(seen, ::testing::ElementsAre(
                          "new_window -1 0", "put " + to + " 3",
                          "signal " + to + " 0", "wait_signal -1 0"));
    expect_ok(barrier());
    for (++behind; behind.load() < 2;) std::this_thread::yield();
    refuses = true;
    EXPECT_THAT(
        std::string(window.put(TensorView(x), other, 3).status().message()),
        ::testing::HasSubstr("a hook refused the call"));
  });
}

size_t descriptors() {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

TEST_P(WindowFailures, ManyWindowsLeaveNothing) {
  size_t before = 0;
  run(2, [&](int me) {
    expect_ok(barrier());  // some backends connect with the first message
    for (int i = 0; i < 300; ++i) {
      const Window window =
          make_window({.count = 1000 + i, .dtype = DType::kI32});
      std::vector<int> x = {i};
      expect_ok(window.put_signal(TensorView(x), Peer::group(1 - me), i, 0, 1,
                                  SignalHow::kSet));
      expect_ok(window.wait_signal(0, Compare::kEq, 1));
      EXPECT_EQ(window.memory_of<int>()[static_cast<size_t>(i)], i);
      expect_ok(window.destroy());
      if (me == 0 && i == 10) before = descriptors();
    }
    expect_ok(barrier());
    if (me == 0) {
      EXPECT_LE(descriptors(), before + 4);
    }
    expect_ok(barrier());
  });
}

}  // namespace
}  // namespace distwrap::testing
