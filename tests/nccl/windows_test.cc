// Windows: memory that NCCL knows on all ranks, puts that signal, and waits.
#include "fake_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

namespace distwrap::nccl_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kCount = 512;
constexpr int64_t kBytes = kCount * 8;

// Memory of the backend, with a window on it.
class WindowOf {
 public:
  explicit WindowOf(FakeRank& rank) : rank_(rank) {
    dw_error error = {};
    void* at = nullptr;
    EXPECT_EQ(nccl().mem_alloc(rank.backend, kBytes, &mem_, &at, &error), DW_OK)
        << error.text;
    data_ = static_cast<int64_t*>(at);
    fill(Ints(kCount, -1));
    EXPECT_EQ(rank.build_window(data_, kBytes, &window_), DW_OK)
        << rank.error.text;
  }
  // All ranks have come to the end before one of them ends its part.
  ~WindowOf() {
    rank_.meeting.swap(rank_.rank, "");
    EXPECT_EQ(rank_.end_window(window_), DW_OK) << rank_.error.text;
    dw_error error = {};
    EXPECT_EQ(nccl().mem_release(rank_.backend, mem_, &error), DW_OK)
        << error.text;
  }
  WindowOf(const WindowOf&) = delete;
  WindowOf& operator=(const WindowOf&) = delete;

  dw_window* get() const { return window_; }
  dw_mem* mem() const { return mem_; }
  int64_t* data() const { return data_; }
  void fill(const Ints& values) const {
    fakes::gpu::write(data_, values.data(), values.size() * sizeof(int64_t));
  }
  int64_t at(size_t i) const {
    int64_t value = 0;
    fakes::gpu::read(&value, data_ + i, sizeof value);
    return value;
  }

 private:
  FakeRank& rank_;
  dw_mem* mem_ = nullptr;
  int64_t* data_ = nullptr;
  dw_window* window_ = nullptr;
};

// The versions of NCCL that have windows.
std::vector<int> versions_with_windows() { return {22902, 23203}; }

class NcclWindows : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, NcclWindows,
                         testing::ValuesIn(versions_with_windows()));

// Each rank sends three values to the next one, again and again.
TEST_P(NcclWindows, ARingOfPuts) {
  run_ranks({.size = 3, .version = GetParam()}, [](FakeRank& rank) {
    const WindowOf window(rank);
    const int next = (rank.rank + 1) % rank.size;
    const int before = (rank.rank + rank.size - 1) % rank.size;
    for (int64_t step = 0; step < 10; ++step) {
      const auto at = static_cast<uint64_t>(8 + 3 * step);
      window.fill({step, 100 * rank.rank, 7});
      EXPECT_EQ(rank.call(rank.on_window(DW_OP_PUT, window.get(), next,
                                         window.data(), 3, at * 8)),
                DW_DONE)
          << rank.error.text;
      EXPECT_EQ(
          rank.call(rank.on_window(DW_OP_WAIT_SIGNAL, window.get(), before)),
          DW_DONE)
          << rank.error.text;
      EXPECT_EQ(window.at(at), step);
      EXPECT_EQ(window.at(at + 1), 100 * before);
      EXPECT_EQ(window.at(at + 2), 7);
    }
  });
}

// The puts of one step of a random program, equal on all ranks: by sender and
// target, how many elements, 0 for a signal alone; -1: none.
using Step = std::vector<std::vector<int64_t>>;

Step next_step(std::minstd_rand& random, int n) {
  Step step(static_cast<size_t>(n));
  for (std::vector<int64_t>& of_rank : step)
    for (int to = 0; to < n; ++to)
      of_rank.push_back(static_cast<int64_t>(random() % 18) - 1);
  return step;
}

// Each rank puts first, and then waits for those that have put to it. What has
// come from a rank has a place of its own.
TEST_P(NcclWindows, RandomPrograms) {
  constexpr int64_t kMost = 16;  // elements of a put
  for (const int n : {1, 2, 3, 5, 8})
    run_ranks({.size = n, .version = GetParam()}, [n](FakeRank& rank) {
      const WindowOf window(rank);
      const auto me = static_cast<size_t>(rank.rank);
      const auto place = [&](size_t from) {
        return static_cast<size_t>(kMost) * (2 + from);
      };
      std::minstd_rand random(static_cast<unsigned>(n));
      for (int64_t s = 0; s < 20; ++s) {
        const Step step = next_step(random, n);
        Ints values(kMost);
        for (int64_t i = 0; i < kMost; ++i)
          values[static_cast<size_t>(i)] = 1000 * s + 100 * rank.rank + i;
        window.fill(values);
        for (int to = 0; to < n; ++to) {
          const int64_t count = step[me][static_cast<size_t>(to)];
          if (count < 0) continue;
          const dw_op put = rank.on_window(
              count == 0 ? DW_OP_SIGNAL : DW_OP_PUT, window.get(), to,
              window.data(), count, place(me) * sizeof(int64_t));
          ASSERT_EQ(rank.call(put), DW_DONE) << rank.error.text;
        }
        for (int from = 0; from < n; ++from) {
          const int64_t count = step[static_cast<size_t>(from)][me];
          if (count < 0) continue;
          ASSERT_EQ(
              rank.call(rank.on_window(DW_OP_WAIT_SIGNAL, window.get(), from)),
              DW_DONE)
              << rank.error.text;
          for (int64_t i = 0; i < count; ++i)
            ASSERT_EQ(window.at(place(static_cast<size_t>(from)) +
                                static_cast<size_t>(i)),
                      1000 * s + 100 * from + i);
        }
        // The next step may write there again.
        rank.meeting.swap(rank.rank, "");
      }
    });
}

TEST_P(NcclWindows, SignalsCountForEachPair) {
  run_ranks({.size = 3, .version = GetParam()}, [](FakeRank& rank) {
    const WindowOf window(rank);
    if (rank.rank != 0) {
      for (int i = 0; i < rank.rank; ++i)
        EXPECT_EQ(rank.call(rank.on_window(DW_OP_SIGNAL, window.get(), 0)),
                  DW_DONE);
      return;
    }
    for (const int from : {2, 1, 2})
      EXPECT_EQ(
          rank.call(rank.on_window(DW_OP_WAIT_SIGNAL, window.get(), from)),
          DW_DONE);
    dw_op more = rank.on_window(DW_OP_WAIT_SIGNAL, window.get(), 1);
    more.timeout_ns = 50'000'000;
    EXPECT_EQ(rank.call(more), DW_DEADLINE_EXCEEDED);
  });
}

// W3: the signals of one window are not those of another one, in whatever order
// they come.
TEST_P(NcclWindows, TwoWindowsCountApart) {
  run_ranks({.size = 2, .version = GetParam()}, [](FakeRank& rank) {
    const WindowOf first(rank), second(rank);
    const auto late = [&](const WindowOf& window) {
      dw_op wait = rank.on_window(DW_OP_WAIT_SIGNAL, window.get(), 1);
      wait.timeout_ns = 20'000'000;
      EXPECT_EQ(rank.call(wait), DW_DEADLINE_EXCEEDED);
    };
    const auto call = [&](uint16_t kind, const WindowOf& window) {
      EXPECT_EQ(rank.call(rank.on_window(kind, window.get(), 1 - rank.rank)),
                DW_DONE)
          << rank.error.text;
    };
    if (rank.rank == 1) {
      for (const WindowOf* const window : {&second, &first, &second})
        call(DW_OP_SIGNAL, *window);
      rank.meeting.swap(1, "");
      rank.meeting.swap(1, "");
      return;
    }
    rank.meeting.swap(0, "");  // all three have been raised
    call(DW_OP_WAIT_SIGNAL, first);
    late(first);
    for (int i = 0; i < 2; ++i) call(DW_OP_WAIT_SIGNAL, second);
    late(second);
    rank.meeting.swap(0, "");
  });
}

// A wait that is late changes nothing, and may be made again.
TEST_P(NcclWindows, ALateWaitMayBeMadeAgain) {
  run_ranks({.size = 2, .version = GetParam()}, [](FakeRank& rank) {
    const WindowOf window(rank);
    if (rank.rank == 0) {
      dw_op wait = rank.on_window(DW_OP_WAIT_SIGNAL, window.get(), 1);
      wait.timeout_ns = 20'000'000;
      EXPECT_EQ(rank.call(wait), DW_DEADLINE_EXCEEDED);
      EXPECT_EQ(rank.error.reason, DW_REASON_TIMED_OUT);
      EXPECT_EQ(rank.call(wait), DW_DEADLINE_EXCEEDED);
      rank.meeting.swap(0, "");
      for (int i = 0; i < 2; ++i)
        EXPECT_EQ(rank.call(rank.on_window(DW_OP_WAIT_SIGNAL, window.get(), 1)),
                  DW_DONE)
            << rank.error.text;
      // None is left.
      EXPECT_EQ(rank.call(wait), DW_DEADLINE_EXCEEDED);
    } else {
      rank.meeting.swap(1, "");
      for (int i = 0; i < 2; ++i)
        EXPECT_EQ(rank.call(rank.on_window(DW_OP_SIGNAL, window.get(), 0)),
                  DW_DONE);
    }
    rank.meeting.swap(rank.rank, "");
    // The group is whole.
    DeviceInts x(rank, {1});
    EXPECT_EQ(
        rank.call(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), x.count())),
        DW_DONE)
        << rank.error.text;
  });
}

// The put is behind what fills its source, and what reads the target is behind
// the wait.
TEST_P(NcclWindows, OnAStream) {
  fakes::gpu::Moment looked[2];
  run_ranks({.size = 2, .version = GetParam()}, [&](FakeRank& rank) {
    CUstream_st stream(rank.device);
    {
      const WindowOf window(rank);
      const int other = 1 - rank.rank;
      fakes::gpu::Moment gate;
      int64_t seen = 0;
      stream.put([&] {
        gate.wait();
        window.fill({42 + rank.rank});
      });
      dw_op put = rank.on(
          rank.on_window(DW_OP_PUT, window.get(), other, window.data(), 1, 80),
          stream);
      dw_op wait = rank.on(
          rank.on_window(DW_OP_WAIT_SIGNAL, window.get(), other), stream);
      dw_work ends[2];
      EXPECT_EQ(rank.submit(put, &ends[0]), DW_OK) << rank.error.text;
      EXPECT_EQ(rank.submit(wait, &ends[1]), DW_OK) << rank.error.text;
      stream.put([&] { seen = window.at(10); });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_EQ(window.at(10), -1);
      looked[rank.rank].happen();
      looked[other].wait();
      gate.happen();
      stream.synchronize();
      EXPECT_EQ(seen, 42 + other);
      for (dw_work& end : ends) {
        EXPECT_TRUE(end.wait(std::chrono::seconds(10)));
        EXPECT_EQ(end.code(), DW_OK) << end.error().text;
      }
    }
  });
}

// The error names what NCCL or the driver lacks, and nothing is sent.
TEST(NcclWindowsRefused, WithAnOldLibraryOrDriver) {
  const auto refused = [](int version, const char* text) {
    run_ranks({.size = 1, .version = version}, [&](FakeRank& rank) {
      const DeviceInts x(rank, {1});
      dw_window* window = nullptr;
      EXPECT_EQ(rank.build_window(x.data(), 8, &window), DW_UNIMPLEMENTED);
      EXPECT_THAT(
          rank.error.text,
          AllOf(HasSubstr("2.29.2"), HasSubstr("CUDA 12.5"), HasSubstr(text)));
    });
  };
  refused(22803, "this is NCCL 2.28.3");
  fakes::gpu::set_driver_version(12040);
  refused(23203, "on a driver of CUDA 12.4");
  fakes::gpu::set_driver_version(12080);
}

TEST(NcclWindowsRefused, OnOtherMemory) {
  run_ranks({.size = 1, .version = 22902}, [](FakeRank& rank) {
    const auto refused = [&](void* at, int64_t bytes, const char* text) {
      dw_window* window = nullptr;
      EXPECT_NE(rank.build_window(at, bytes, &window), DW_OK) << text;
      EXPECT_THAT(rank.error.text, HasSubstr(text));
    };
    const DeviceInts other(rank, {1});
    refused(other.data(), 8, "not of the group's allocator");
    refused(nullptr, 8, "allocates no memory");
    dw_mem* mem = nullptr;
    void* at = nullptr;
    ASSERT_EQ(nccl().mem_alloc(rank.backend, 8192, &mem, &at, nullptr), DW_OK);
    refused(static_cast<char*>(at) + 8, 8, "multiple of 4096");
    refused(at, 8193, "not of the group's allocator");
    refused(at, 0, "no memory");
    dw_window* first = nullptr;
    ASSERT_EQ(rank.build_window(at, 4096, &first), DW_OK) << rank.error.text;
    refused(static_cast<char*>(at) + 4096, 4096, "needs NCCL 2.31.2");
    dw_error error = {};
    EXPECT_EQ(nccl().mem_release(rank.backend, mem, &error),
              DW_INVALID_ARGUMENT);
    EXPECT_THAT(error.text, HasSubstr("a window is on the memory"));
    EXPECT_EQ(rank.end_window(first), DW_OK) << rank.error.text;
    EXPECT_EQ(nccl().mem_release(rank.backend, mem, &error), DW_OK)
        << error.text;
  });
}

TEST(NcclWindowsRefused, WithPartsOfOtherSizes) {
  run_ranks({.size = 2}, [](FakeRank& rank) {
    dw_mem* mem = nullptr;
    void* at = nullptr;
    ASSERT_EQ(nccl().mem_alloc(rank.backend, 64, &mem, &at, nullptr), DW_OK);
    dw_window* window = nullptr;
    EXPECT_NE(rank.build_window(at, rank.rank == 0 ? 32 : 64, &window), DW_OK);
    EXPECT_THAT(rank.error.text, AllOf(HasSubstr("32"), HasSubstr("64"),
                                       HasSubstr("equally large")));
    EXPECT_EQ(nccl().mem_release(rank.backend, mem, &rank.error), DW_OK)
        << rank.error.text;
  });
}

// An abort of the group ends a wait that is on its way, and later calls.
TEST_P(NcclWindows, EndWithTheirGroup) {
  run_ranks({.size = 2, .version = GetParam()}, [](FakeRank& rank) {
    dw_mem* mem = nullptr;
    void* at = nullptr;
    ASSERT_EQ(nccl().mem_alloc(rank.backend, 64, &mem, &at, nullptr), DW_OK);
    dw_window* window = nullptr;
    ASSERT_EQ(rank.build_window(at, 64, &window), DW_OK) << rank.error.text;
    std::thread aborts([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      dw_error why = {};
      why.code = DW_ABORTED;
      why.reason = DW_REASON_ABORTED;
      why.peer = -1;
      std::snprintf(why.text, sizeof why.text, "a test ends it");
      EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
    });
    const dw_op wait = rank.on_window(DW_OP_WAIT_SIGNAL, window, 1 - rank.rank);
    EXPECT_EQ(rank.call(wait), DW_ABORTED);
    EXPECT_THAT(rank.error.text, HasSubstr("a test ends it"));
    EXPECT_EQ(rank.call(wait), DW_ABORTED);
    aborts.join();
    EXPECT_EQ(rank.end_window(window), DW_ABORTED);
    EXPECT_THAT(rank.error.text, HasSubstr("may still write"));
    EXPECT_EQ(nccl().mem_release(rank.backend, mem, &rank.error), DW_OK)
        << rank.error.text;
  });
}

}  // namespace
}  // namespace distwrap::nccl_test
