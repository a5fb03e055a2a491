// Faults at random moments, over each version of the fake NCCL: aborts from
// another thread, and many threads at once.
#include "fake_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <random>
#include <thread>
#include <vector>

namespace distwrap::nccl_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// The limit of an abort in a test, on a machine that does much else.
constexpr milliseconds kSoon{2000};

class NcclChaos : public testing::TestWithParam<int> {};

// A call on memory of one value for each rank; a message is of two ranks.
dw_op call_of(const FakeRank& rank, uint16_t kind, const DeviceInts& x,
              const DeviceInts& y) {
  dw_op op = rank.op(kind, x.data(), y.data(), rank.size, rank.size - 1);
  switch (kind) {
    case DW_OP_BARRIER:
      return rank.op(kind, nullptr, nullptr, 0);
    case DW_OP_ALL_GATHER:
    case DW_OP_GATHER:
      op.in.count = 1;
      break;
    case DW_OP_REDUCE_SCATTER:
    case DW_OP_SCATTER:
      op.out.count = 1;
      break;
    case DW_OP_SEND:
    case DW_OP_RECV:
      op = rank.rank == 0 ? rank.op(DW_OP_SEND, x.data(), nullptr, 2, 1)
                          : rank.op(DW_OP_RECV, nullptr, y.data(), 2, 0);
      break;
    default:
      break;
  }
  return op;
}

constexpr uint16_t kCallKinds[] = {
    DW_OP_BARRIER,        DW_OP_BROADCAST,  DW_OP_REDUCE,  DW_OP_ALL_REDUCE,
    DW_OP_GATHER,         DW_OP_ALL_GATHER, DW_OP_SCATTER, DW_OP_ALL_TO_ALL,
    DW_OP_REDUCE_SCATTER, DW_OP_SEND};

int count_in(const char* folder) {
  const auto begin = std::filesystem::directory_iterator(folder);
  return static_cast<int>(std::distance(begin, {}));
}

// F11: one to eight ranks repeat a call until their host aborts it, from a
// thread of its own, at a random moment. Every call ends soon with the cause,
// and nothing is left.
TEST_P(NcclChaos, AbortsInEveryCall) {
  const unsigned seed = seed_of(GetParam());
  const auto once = [&](uint16_t kind, int round) {
    const unsigned own = seed + static_cast<unsigned>(100 * round + kind);
    const int size = kind == DW_OP_SEND ? 2 : 1 + static_cast<int>(own % 8);
    run_ranks({.size = size, .version = GetParam()}, [&](FakeRank& rank) {
      std::minstd_rand random(own + static_cast<unsigned>(rank.rank));
      const microseconds when(random() % 8000);
      Clock::time_point aborted = Clock::time_point::max();
      std::thread host([&] {
        std::this_thread::sleep_for(when);
        dw_error why = {};
        why.code = DW_ABORTED;
        why.reason = DW_REASON_ABORTED;
        why.peer = -1;
        std::snprintf(why.text, sizeof why.text, "the host has had enough");
        aborted = Clock::now();
        EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
      });
      const Ints values(static_cast<size_t>(rank.size), 1);
      const DeviceInts x(rank, values), y(rank, values);
      const dw_op op = call_of(rank, kind, x, y);
      int32_t code = DW_DONE;
      while (code == DW_DONE) code = rank.call(op);
      const Clock::time_point ended = Clock::now();
      host.join();
      EXPECT_EQ(code, DW_ABORTED) << "kind " << kind;
      EXPECT_THAT(rank.error.text, HasSubstr("had enough"));
      EXPECT_LT(ended - aborted, kSoon);
      // The device lets go of the memory.
      CUstream_st stream(rank.device);
      stream.synchronize();
      rank.close();
    });
  };
  once(DW_OP_BARRIER, 0);
  const int threads = count_in("/proc/self/task");
  const int descriptors = count_in("/proc/self/fd");
  for (int round = 1; round <= 2; ++round)
    for (const uint16_t kind : kCallKinds) once(kind, round);
  for (int i = 0; i < 5000 && count_in("/proc/self/task") > threads; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_LE(count_in("/proc/self/task"), threads);
  EXPECT_LE(count_in("/proc/self/fd"), descriptors);
}

// F11 for windows: both ranks put and wait in turns until their host aborts the
// group, and then end the window.
TEST_P(NcclChaos, AbortsInCallsOnWindows) {
  if (GetParam() < 22902) return;  // no windows
  std::minstd_rand random(seed_of(GetParam()));
  for (int round = 0; round < 15; ++round) {
    const microseconds when(random() % 5000);
    run_ranks({.size = 2, .version = GetParam()}, [&](FakeRank& rank) {
      dw_mem* mem = nullptr;
      void* at = nullptr;
      ASSERT_EQ(nccl().mem_alloc(rank.backend, 4096, &mem, &at, nullptr),
                DW_OK);
      dw_window* window = nullptr;
      ASSERT_EQ(rank.build_window(at, 4096, &window), DW_OK) << rank.error.text;
      std::thread host([&] {
        std::this_thread::sleep_for(when);
        dw_error why = {};
        why.code = DW_ABORTED;
        why.reason = DW_REASON_ABORTED;
        why.peer = -1;
        std::snprintf(why.text, sizeof why.text, "the host has had enough");
        EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
      });
      const int other = 1 - rank.rank;
      int32_t code = DW_DONE;
      for (int i = 0; code == DW_DONE; ++i)
        code = rank.call(
            i % 2 == 0 ? rank.on_window(DW_OP_PUT, window, other, at, 8, 1024)
                       : rank.on_window(DW_OP_WAIT_SIGNAL, window, other));
      host.join();
      EXPECT_EQ(code, DW_ABORTED);
      EXPECT_THAT(rank.error.text, HasSubstr("had enough"));
      const Clock::time_point begun = Clock::now();
      EXPECT_EQ(rank.end_window(window), DW_ABORTED);
      EXPECT_THAT(rank.error.text, HasSubstr("may still write"));
      EXPECT_EQ(nccl().mem_release(rank.backend, mem, &rank.error), DW_OK)
          << rank.error.text;
      EXPECT_LT(Clock::now() - begun, kSoon);
    });
  }
}

// F20: threads of a rank, each with a group of its own on the same device. NCCL
// wants one thread at a time; the fake says so when there are two.
TEST_P(NcclChaos, ManyThreadsOnADevice) {
  constexpr int kThreads = 6, kCalls = 30;
  run_ranks({.size = 2, .version = GetParam()}, [](FakeRank& rank) {
    std::vector<dw_comm*> comms(kThreads);
    for (size_t i = 0; i < comms.size(); ++i) {
      dw_setup_info info = {};
      info.rank = rank.rank;
      info.size = 2;
      info.uid = 100 + i;
      ASSERT_EQ(rank.build(info, rank.meeting, &comms[i]), DW_OK)
          << rank.error.text;
    }
    std::vector<std::thread> threads;
    for (dw_comm* const comm : comms)
      threads.emplace_back([&rank, comm] {
        const DeviceInts x(rank, {rank.rank + 1}), y(rank, {0});
        dw_op op = rank.op(DW_OP_ALL_REDUCE, x.data(), y.data(), 1);
        op.flags |= DW_FLAG_CALLER_WAITS;
        for (int i = 0; i < kCalls; ++i) {
          dw_error error = {};
          ASSERT_EQ(nccl().submit(comm, &op, nullptr, &error), DW_DONE)
              << error.text;
          ASSERT_EQ(y.values(), Ints{3});
          y.set({0});
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (dw_comm* const comm : comms)
      EXPECT_EQ(nccl().comm_destroy(
                    comm, conformance::now_ns() + 20'000'000'000, nullptr),
                DW_OK);
  });
}

INSTANTIATE_TEST_SUITE_P(Versions, NcclChaos, testing::ValuesIn(versions()),
                         [](const auto& version) {
                           return std::to_string(version.param);
                         });

}  // namespace
}  // namespace distwrap::nccl_test
