// Errors, aborts and ends.
#include "fake_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace distwrap::nccl_test {
namespace {

using fakes::gpu::Moment;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLong{10000};
// The limit of what has 50 ms, on a machine that does much else. A synchronous
// call whose buffers NCCL does not let go of stays longer.
constexpr milliseconds kSoon{1000};

// Rank 1 never calls, and rank 0's NCCL connects inside its call.
TEST(NcclAbort, EndsACallThatConnects) {
  run_ranks({.size = 2}, [](FakeRank& rank) {
    if (rank.rank == 1) return;
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    std::thread aborts([&] {
      std::this_thread::sleep_for(milliseconds(20));
      const dw_error why = why_of("a test ends it");
      EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
    });
    const auto begun = Clock::now();
    dw_work work;
    EXPECT_EQ(
        rank.submit(
            rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream),
            &work),
        DW_ABORTED);
    EXPECT_THAT(rank.error.text, HasSubstr("a test ends it"));
    EXPECT_LT(Clock::now() - begun, kSoon);
    aborts.join();
  });
}

TEST(NcclDeadline, EndsACallThatConnects) {
  run_ranks({.size = 2}, [](FakeRank& rank) {
    if (rank.rank == 1) return;
    const DeviceInts x(rank, {1});
    dw_op op = rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1);
    op.timeout_ns = 30'000'000;
    const auto begun = Clock::now();
    EXPECT_EQ(rank.call(op), DW_DEADLINE_EXCEEDED);
    EXPECT_EQ(rank.error.reason, DW_REASON_TIMED_OUT);
    EXPECT_THAT(rank.error.text, HasSubstr("one of them has not called"));
    EXPECT_LT(Clock::now() - begun, kSoon);
    op.timeout_ns = 0;
    EXPECT_EQ(rank.call(op), DW_DEADLINE_EXCEEDED) << "the group is broken";
  });
}

// NCCL's own thread may launch, behind other work of the stream, what the
// caller has given up. Such a call returns when its buffers are free.
TEST(NcclAbort, WaitsForWhatNcclLaunchesLate) {
  for (int time = 0; time < 60; ++time) {
    Moment gate;
    run_ranks({.size = 1}, [&](FakeRank& rank) {
      // The fake launches each third operation in its own thread.
      for (int i = 0; i < 3; ++i)
        ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)),
                  DW_DONE);
      CUstream_st stream(rank.device);
      stream.put([&] { gate.wait(); });
      fakes::gpu::hang_call(1);
      std::thread program([&] {
        const DeviceInts x(rank, {1});
        const dw_op op = rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1);
        EXPECT_EQ(rank.call(rank.on(op, stream)), DW_ABORTED);
        EXPECT_THAT(rank.error.text, HasSubstr("a test ends it"));
      });
      while (!fakes::gpu::call_hangs()) std::this_thread::yield();
      const dw_error why = why_of("a test ends it");
      EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
      fakes::gpu::let_go();
      std::this_thread::sleep_for(milliseconds(5));
      gate.happen();
      program.join();
    });
  }
}

// An operation that the device has ended before an abort has its result.
TEST(NcclAbort, LeavesWhatHasEnded) {
  for (int time = 0; time < 60; ++time)
    run_ranks({.size = 1}, [&](FakeRank& rank) {
      CUstream_st stream(rank.device);
      const DeviceInts x(rank, {3}), y(rank, {0});
      const dw_op op = rank.op(DW_OP_ALL_REDUCE, x.data(), y.data(), 1);
      dw_work work;
      ASSERT_EQ(rank.submit(rank.on(op, stream), &work), DW_OK);
      stream.synchronize();
      const dw_error why = why_of("a test ends it");
      EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
      ASSERT_TRUE(work.wait(kLong));
      EXPECT_EQ(work.code(), DW_OK) << work.error().text;
      EXPECT_EQ(y.values(), Ints{3});
      EXPECT_EQ(rank.call(rank.on(op, stream)), DW_ABORTED);
    });
}

// Rank 1 never calls, and rank 0's device waits for it.
TEST(NcclDeadline, EndsACallThatTheDeviceDoesNot) {
  Moment gate;
  run_ranks({.size = 2}, [&](FakeRank& rank) {
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    const DeviceInts x(rank, {1});
    dw_op op = rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1);
    if (rank.rank == 1) return gate.wait();
    op.timeout_ns = 30'000'000;
    EXPECT_EQ(rank.call(op), DW_DEADLINE_EXCEEDED);
    gate.happen();
  });
}

// Works complete with the cause when the device lets go of their buffers.
TEST(NcclAbort, EndsWhatFlies) {
  Moment aborted;
  run_ranks({.size = 2}, [&](FakeRank& rank) {
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    if (rank.rank == 1) return aborted.wait();
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    dw_work works[3];
    for (dw_work& work : works)
      ASSERT_EQ(
          rank.submit(
              rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream),
              &work),
          DW_OK)
          << rank.error.text;
    const dw_error why = why_of("rank 1 has left");
    const auto begun = Clock::now();
    EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
    EXPECT_LT(Clock::now() - begun, milliseconds(50));
    for (dw_work& work : works) {
      ASSERT_TRUE(work.wait(kLong));
      EXPECT_EQ(work.code(), DW_ABORTED);
      EXPECT_THAT(work.error().text, HasSubstr("rank 1 has left"));
      EXPECT_EQ(work.completions(), 1);
    }
    EXPECT_EQ(x.values(), Ints{1});
    dw_work late;
    EXPECT_EQ(rank.submit(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0), &late),
              DW_ABORTED);
    aborted.happen();
  });
}

// By ncclCommAbort over a version without ncclCommRevoke.
class NcclAbortHangs : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, NcclAbortHangs, testing::Values(22304, 23203));

TEST_P(NcclAbortHangs, AnAbortIsLeftBehind) {
  fakes::gpu::hang_ends(true);
  run_ranks({.size = 1, .version = GetParam()}, [](FakeRank& rank) {
    const dw_error why = why_of("the network is stuck");
    const auto begun = Clock::now();
    EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(nccl().comm_destroy(rank.comm, conformance::now_ns() + 30'000'000,
                                  &rank.error),
              DW_DEADLINE_EXCEEDED);
    rank.comm = nullptr;
    rank.close();
    EXPECT_LT(Clock::now() - begun, kLong);
  });
  fakes::gpu::hang_ends(false);
  std::this_thread::sleep_for(milliseconds(50));  // the threads left behind
}

// Rank 1 never calls, and NCCL does not abort what waits for it.
TEST(NcclAbort, ThatFailsLeavesTheBuffersToNccl) {
  run_ranks({.size = 2, .version = 22304}, [](FakeRank& rank) {
    if (rank.rank == 1) return;
    void* const x = fakes::gpu::allocate(rank.device, 8);  // never released
    dw_op op = rank.op(DW_OP_ALL_REDUCE, x, x, 1);
    op.timeout_ns = 30'000'000;
    fakes::gpu::fail_call(1, 3, fakes::gpu::Calls::kAbort);
    EXPECT_EQ(rank.call(op), DW_DEADLINE_EXCEEDED);
    EXPECT_TRUE(fakes::gpu::has_failed());
    fakes::gpu::fail_call(0, 0);
    EXPECT_THAT(rank.error.text,
                HasSubstr("NCCL still uses the buffers of this call: "));
  });
  expect_nothing_left();
}

// When all ranks have finalized, the end is no failure of theirs.
TEST(NcclEnds, ADestroyThatHangsIsLeftBehind) {
  fakes::gpu::hang_ends(true);
  run_ranks({.size = 2}, [](FakeRank& rank) {
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    EXPECT_EQ(
        nccl().comm_destroy(rank.comm, conformance::now_ns() + 10'000'000'000,
                            &rank.error),
        DW_OK)
        << rank.error.text;
    rank.comm = nullptr;
  });
  fakes::gpu::hang_ends(false);
  std::this_thread::sleep_for(milliseconds(50));  // the threads left behind
}

// By the thread of the end, which asks whether the finalize is over, or by the
// instance's thread just before.
TEST(NcclEnds, AQuestionThatFailsIsAnError) {
  run_ranks({.size = 1}, [](FakeRank& rank) {
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    fakes::gpu::fail_call(1, 6, fakes::gpu::Calls::kQuestion);
    EXPECT_EQ(
        nccl().comm_destroy(rank.comm, conformance::now_ns() + 10'000'000'000,
                            &rank.error),
        DW_UNAVAILABLE);
    rank.comm = nullptr;
    EXPECT_EQ(rank.error.reason, DW_REASON_PEER_LOST);
    EXPECT_TRUE(gives_nccls_reason(rank.error)) << rank.error.text;
    fakes::gpu::fail_call(0, 0);
  });
  expect_nothing_left();
}

// NCCL reports by itself that a peer has gone.
TEST(NcclErrors, AnAsynchronousOneEndsTheGroup) {
  Moment over;
  run_ranks({.size = 2}, [&](FakeRank& rank) {
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    if (rank.rank == 1) return over.wait();
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    dw_work work;
    ASSERT_EQ(
        rank.submit(
            rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream),
            &work),
        DW_OK);
    fakes::gpu::fail_asynchronously(6);  // ncclRemoteError
    EXPECT_TRUE(work.wait(kLong));
    fakes::gpu::fail_asynchronously(0);
    EXPECT_EQ(work.error().reason, DW_REASON_PEER_LOST);
    EXPECT_THAT(work.error().text, HasSubstr("remote process exited"));
    over.happen();
  });
}

}  // namespace
}  // namespace distwrap::nccl_test
