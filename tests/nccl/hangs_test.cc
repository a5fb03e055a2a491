// Calls of NCCL that do not return, and what goes on beside them on the same
// device.
#include "fake_ranks.h"
#include "nccl/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <thread>
#include <utility>

namespace distwrap::nccl_test {
namespace {

using fakes::gpu::Moment;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

constexpr int64_t kShort = 30'000'000;  // ns
// A synchronous call whose buffers NCCL uses stays so long.
constexpr milliseconds kSynchronous{1000};
// Long after everything that is bounded has ended.
constexpr std::chrono::seconds kLong{10};

dw_op sum(const FakeRank& rank, const DeviceInts& x, int64_t timeout_ns) {
  dw_op op = rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1);
  op.seq = 4;
  op.timeout_ns = timeout_ns;
  return op;
}

// Runs `body` while `call` hangs in NCCL. A body that waits for it fails the
// test.
void run_beside_a_hang(const std::function<void()>& call,
                       const std::function<void()>& body) {
  fakes::gpu::hang_call(1);
  std::thread stuck(call);
  while (!fakes::gpu::call_hangs()) std::this_thread::yield();
  std::future<void> ended = std::async(std::launch::async, body);
  EXPECT_EQ(ended.wait_for(kLong), std::future_status::ready);
  fakes::gpu::let_go();
  stuck.join();
}

// The call is an all_reduce #4 of `rank`.
void run_beside_a_hang(FakeRank& rank, const std::function<void()>& body) {
  const DeviceInts x(rank, {1});
  run_beside_a_hang([&] { rank.call(sum(rank, x, 0)); }, body);
}

// Two communicators on one device.
void run_two(const std::function<void(FakeRank& stuck, FakeRank& other)>& body,
             const HintMap& hints = {}) {
  run_ranks({.size = 1}, [&](FakeRank& stuck) {
    run_ranks({.size = 1, .hints = hints},
              [&](FakeRank& other) { body(stuck, other); });
  });
}

TEST(NcclHangs, OtherCallsOfTheDeviceKeepTheirDeadlines) {
  run_two([](FakeRank& stuck, FakeRank& other) {
    run_beside_a_hang(stuck, [&] {
      const DeviceInts x(other, {1});
      EXPECT_EQ(other.call(sum(other, x, kShort)), DW_DEADLINE_EXCEEDED);
      EXPECT_EQ(other.error.reason, DW_REASON_TIMED_OUT);
      EXPECT_THAT(
          other.error.text,
          HasSubstr("NCCL takes one call at a time for a device, and is "
                    "busy with all_reduce #4"));
    });
    const DeviceInts x(other, {1});
    EXPECT_EQ(other.call(sum(other, x, 0)), DW_DONE) << "nothing was started";
  });
}

// Several threads may call on a window.
TEST(NcclHangs, OtherCallsOfTheWindowKeepTheirDeadlines) {
  run_ranks({.size = 1}, [](FakeRank& rank) {
    dw_mem* mem = nullptr;
    void* data = nullptr;
    dw_window* window = nullptr;
    ASSERT_EQ(nccl().mem_alloc(rank.backend, 4096, &mem, &data, nullptr),
              DW_OK);
    ASSERT_EQ(rank.build_window(data, 4096, &window), DW_OK) << rank.error.text;
    const auto signal = [&](int64_t timeout_ns, dw_error* error) {
      dw_op op = rank.on_window(DW_OP_SIGNAL, window, 0);
      op.flags |= DW_FLAG_CALLER_WAITS;
      op.timeout_ns = timeout_ns;
      return nccl().submit(rank.comm, &op, nullptr, error);
    };
    run_beside_a_hang(
        [&] { EXPECT_EQ(signal(0, nullptr), DW_DONE); },
        [&] {
          dw_error error = {};
          EXPECT_EQ(signal(kShort, &error), DW_DEADLINE_EXCEEDED);
          EXPECT_THAT(
              error.text,
              HasSubstr(
                  "at a time for a communicator, and is busy with signal"));
        });
    EXPECT_EQ(rank.end_window(window), DW_OK) << rank.error.text;
    EXPECT_EQ(nccl().mem_release(rank.backend, mem, nullptr), DW_OK);
  });
}

TEST(NcclHangs, OtherCallsOfTheDeviceEndByAnAbort) {
  run_two([](FakeRank& stuck, FakeRank& other) {
    run_beside_a_hang(stuck, [&] {
      const DeviceInts x(other, {1});
      CUstream_st stream(other.device);
      std::thread aborts([&] {
        std::this_thread::sleep_for(milliseconds(20));
        EXPECT_EQ(nccl().comm_abort(other.comm, nullptr), DW_OK);
      });
      dw_work work;
      EXPECT_EQ(other.submit(other.on(sum(other, x, 0), stream), &work),
                DW_ABORTED);
      aborts.join();
      other.close();
    });
  });
}

TEST(NcclHangs, EndsOfTheDeviceKeepTheirDeadlines) {
  run_two([](FakeRank& stuck, FakeRank& other) {
    run_beside_a_hang(stuck, [&] {
      EXPECT_EQ(
          nccl().comm_destroy(std::exchange(other.comm, nullptr),
                              conformance::now_ns() + kShort, &other.error),
          DW_DEADLINE_EXCEEDED);
      EXPECT_THAT(other.error.text, HasSubstr("busy with all_reduce #4"));
    });
  });
}

int32_t end(FakeRank& rank) {
  return nccl().comm_destroy(std::exchange(rank.comm, nullptr),
                             conformance::now_ns() + kShort, &rank.error);
}

// The fake NCCL waits for a kernel that the backend does not know, as NCCL does
// for the other ranks.
TEST(NcclHangs, ADestroyNamesTheOtherRanks) {
  run_ranks({.size = 1}, [](FakeRank& rank) {
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    nccl_backend::Nccl raw;
    ASSERT_EQ(nccl_backend::open_nccl(fake_nccl(23203), &raw, nullptr), DW_OK);
    ncclComm* const handle = nccl_backend::of(rank.comm)->part->handle;
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    Moment gate;
    stream.put([&] { gate.wait(); });
    raw.ncclGroupStart();
    raw.ncclAllReduce(x.data(), x.data(), 1, ncclInt64, ncclSum, handle,
                      &stream);
    raw.ncclGroupEnd();
    int state = ncclInProgress;
    while (state == ncclInProgress) raw.ncclCommGetAsyncError(handle, &state);
    EXPECT_EQ(end(rank), DW_DEADLINE_EXCEEDED);
    EXPECT_THAT(rank.error.text, AllOf(HasSubstr("NCCL waits for the other"),
                                       Not(HasSubstr("graph"))));
    gate.happen();
    stream.synchronize();
  });
}

TEST(NcclHangs, ADestroyNamesAnAbort) {
  fakes::gpu::hang_ends(true);
  run_ranks({.size = 1}, [](FakeRank& rank) {
    EXPECT_EQ(nccl().comm_abort(rank.comm, nullptr), DW_OK);
    EXPECT_EQ(end(rank), DW_DEADLINE_EXCEEDED);
    EXPECT_THAT(rank.error.text, HasSubstr("NCCL's abort has not returned"));
    fakes::gpu::hang_ends(false);
  });
}

TEST(NcclHangs, ASetupOnTheDeviceCanBeGivenUp) {
  run_two([](FakeRank& stuck, FakeRank& other) {
    dw_comm* made = nullptr;
    dw_setup_info info = {};
    info.size = 1;
    info.uid = 8;
    run_beside_a_hang(stuck, [&] {
      EXPECT_EQ(other.build(info, other.meeting, &made, 4), DW_CANCELLED);
    });
    EXPECT_EQ(other.build(info, other.meeting, &made), DW_OK);
    nccl().comm_destroy(made, conformance::now_ns() + 5'000'000'000, nullptr);
  });
}

// The parent's thread is inside NCCL, and so is nothing made of the parent.
TEST(NcclHangs, ASetupFromTheCommunicatorCanBeGivenUp) {
  run_ranks({.size = 1, .hints = {{"split", "1"}}}, [](FakeRank& rank) {
    const dw_hint split = {{"split", 5}, {"1", 1}};
    dw_comm* made = nullptr;
    dw_setup_info info = {};
    const int32_t parent_rank[] = {0};
    info.size = 1;
    info.uid = 8;
    info.parent = rank.comm;
    info.parent_rank = parent_rank;
    info.flags = DW_SETUP_ALL_OF_PARENT;
    info.hints = &split;
    info.n_hints = 1;
    run_beside_a_hang(rank, [&] {
      EXPECT_EQ(rank.build(info, rank.meeting, &made, 4), DW_CANCELLED);
    });
  });
}

TEST(NcclHangs, AReleaseIsRefused) {
  run_two([](FakeRank& stuck, FakeRank& other) {
    dw_mem* mem = nullptr;
    void* data = nullptr;
    ASSERT_EQ(nccl().mem_alloc(other.backend, 16, &mem, &data, nullptr), DW_OK);
    dw_op op = other.op(DW_OP_ALL_REDUCE, data, data, 1);
    op.flags |= DW_FLAG_REGISTERED;
    ASSERT_EQ(other.call(op), DW_DONE) << other.error.text;
    run_beside_a_hang(stuck, [&] {
      EXPECT_EQ(nccl().mem_release(other.backend, mem, &other.error),
                DW_INVALID_ARGUMENT);
      EXPECT_THAT(other.error.text, HasSubstr("NCCL has not let go"));
    });
    EXPECT_EQ(nccl().mem_release(other.backend, mem, nullptr), DW_OK);
  });
}

// The instance's thread asks, and does not come back.
TEST(NcclHangs, AQuestionHoldsUpNoAbort) {
  run_ranks({.size = 1}, [](FakeRank& rank) {
    Moment gate;
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    stream.put([&] { gate.wait(); });
    dw_work work;
    ASSERT_EQ(rank.submit(rank.on(sum(rank, x, 0), stream), &work), DW_OK);
    fakes::gpu::hang_call(1, fakes::gpu::Calls::kQuestion);
    while (!fakes::gpu::call_hangs()) std::this_thread::yield();
    std::future<void> ended = std::async(std::launch::async, [&] {
      EXPECT_EQ(nccl().comm_abort(rank.comm, nullptr), DW_OK);
      const DeviceInts y(rank, {1});
      EXPECT_EQ(rank.call(sum(rank, y, kShort)), DW_ABORTED);
    });
    EXPECT_EQ(ended.wait_for(kLong), std::future_status::ready);
    fakes::gpu::let_go();
    gate.happen();
    EXPECT_TRUE(work.wait(milliseconds(kLong)));
  });
}

// The thread that asks is left behind, and frees the instance when it can.
TEST(NcclHangs, AQuestionHoldsUpNoClose) {
  run_unopened({.size = 1}, [](FakeRank& rank) {
    ASSERT_EQ(rank.open(), DW_OK) << rank.error.text;
    ASSERT_EQ(rank.build(), DW_OK) << rank.error.text;
    Moment gate;
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    stream.put([&] { gate.wait(); });
    dw_work work;
    ASSERT_EQ(rank.submit(rank.on(sum(rank, x, 0), stream), &work), DW_OK);
    fakes::gpu::hang_call(1, fakes::gpu::Calls::kQuestion);
    while (!fakes::gpu::call_hangs()) std::this_thread::yield();
    gate.happen();
    while (!work.wait(milliseconds(0))) nccl().progress(rank.backend);
    std::future<void> ended = std::async(std::launch::async, [&] {
      EXPECT_EQ(end(rank), DW_DEADLINE_EXCEEDED);
      EXPECT_THAT(rank.error.text, HasSubstr("a question for errors"));
      rank.close();
    });
    EXPECT_EQ(ended.wait_for(kLong), std::future_status::ready);
    fakes::gpu::let_go();
    while (fakes::gpu::contexts_in_use() != 0) std::this_thread::yield();
  });
}

// A call on a stream that connects for ever, whose abort does not return: NCCL
// may still use the buffers, and the error says so.
TEST(NcclHangs, AnAbortHoldsUpNoEnqueue) {
  fakes::gpu::hang_ends(true);
  run_ranks({.size = 2}, [](FakeRank& rank) {
    if (rank.rank == 1) return;
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    dw_error why = {};
    why.code = DW_ABORTED;
    why.reason = DW_REASON_ABORTED;
    std::snprintf(why.text, sizeof why.text, "a test ends it");
    Clock::time_point aborted;
    std::thread aborts([&] {
      std::this_thread::sleep_for(milliseconds(20));
      aborted = Clock::now();
      EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
    });
    dw_work work;
    EXPECT_EQ(rank.submit(rank.on(sum(rank, x, 0), stream), &work), DW_ABORTED);
    const auto back = Clock::now();
    aborts.join();
    EXPECT_LT(back - aborted, kSynchronous);
    EXPECT_THAT(
        rank.error.text,
        HasSubstr("NCCL still uses the buffers of this call: a test ends "
                  "it"));
    fakes::gpu::hang_ends(false);
    rank.close();  // then the buffers are free
  });
}

// A synchronous one keeps its caller, whose buffers they are.
TEST(NcclHangs, AnAbortHoldsUpASynchronousCall) {
  fakes::gpu::hang_ends(true);
  run_ranks({.size = 2}, [](FakeRank& rank) {
    if (rank.rank == 1) return;
    const DeviceInts x(rank, {1});
    const auto begun = Clock::now();
    EXPECT_EQ(rank.call(sum(rank, x, kShort)), DW_DEADLINE_EXCEEDED);
    EXPECT_GE(Clock::now() - begun, kSynchronous);
    EXPECT_THAT(rank.error.text,
                HasSubstr("NCCL still uses the buffers of this call: "));
    fakes::gpu::hang_ends(false);
    rank.close();  // then the buffers are free
  });
}

// A call that NCCL has refused before it saw the buffers.
TEST(NcclHangs, AnAbortHoldsUpNoCallThatHasNotBegun) {
  fakes::gpu::hang_ends(true);
  run_ranks({.size = 1}, [](FakeRank& rank) {
    const DeviceInts x(rank, {1});
    fakes::gpu::fail_call(1, 3);
    const auto begun = Clock::now();
    EXPECT_EQ(rank.call(sum(rank, x, 0)), DW_INTERNAL);
    EXPECT_LT(Clock::now() - begun, kSynchronous);
    EXPECT_THAT(rank.error.text, Not(HasSubstr("buffers")));
    fakes::gpu::fail_call(0, 0);
    fakes::gpu::hang_ends(false);
    rank.close();  // then the buffers are free
  });
}

}  // namespace
}  // namespace distwrap::nccl_test
