// Deadlines, aborts and ends on a real device.
#include "distwrap/memory.h"
#include "distwrap/window.h"
#include "driver.h"
#include "world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace distwrap::gpu_test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

class GpuEnds : public testing::Test {
 protected:
  void SetUp() override {
    group_ = new_world();
    ASSERT_TRUE(all_reduce(view(), ReduceOp::kSum, {.group = group_}).ok());
  }
  TensorView view() const { return on_device(x_, DType::kI64); }

  Group group_;
  DeviceBytes x_{device(), 8};
};

// An operation that the device has not ended by its deadline fails, and says
// so.
TEST_F(GpuEnds, ADeadlineEndsACall) {
  Gate gate;
  GpuStream stream(device());
  stream.put(gate);
  const absl::StatusOr<Work> work =
      all_reduce(view(), ReduceOp::kSum,
                 {.group = group_,
                  .timeout = absl::Milliseconds(100),
                  .stream = handle(stream)});
  ASSERT_TRUE(work.ok()) << work.status();
  const auto begun = Clock::now();
  const absl::Status status = work->wait();
  EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
  EXPECT_LT(Clock::now() - begun, milliseconds(2000));
  gate.open();
  stream.synchronize();
  EXPECT_EQ(error_reason(
                all_reduce(view(), ReduceOp::kSum, {.group = group_}).status()),
            Reason::kGroupBroken);
  EXPECT_TRUE(destroy_process_group(group_).ok());
}

// NCCL hears of an abort a moment later. What the device has ended by then has
// its result; no other operation says that it has one.
TEST_F(GpuEnds, AnAbortReturnsAtOnce) {
  const int64_t value = 7, sentinel = -1;
  x_.upload(&value);
  DeviceBytes y(device(), 8);
  y.upload(&sentinel);
  Gate gate;
  GpuStream stream(device());
  stream.put(gate);
  const absl::StatusOr<Work> work =
      all_reduce(on_device(y, DType::kI64), view(), ReduceOp::kMax,
                 {.group = group_, .stream = handle(stream)});
  ASSERT_TRUE(work.ok()) << work.status();
  const auto begun = Clock::now();
  EXPECT_TRUE(abort(group_).ok());
  EXPECT_LT(Clock::now() - begun, milliseconds(500));
  EXPECT_EQ(error_reason(
                all_reduce(view(), ReduceOp::kSum, {.group = group_}).status()),
            Reason::kGroupBroken);
  EXPECT_FALSE(work->wait(absl::Milliseconds(50)).ok());
  gate.open();
  const absl::Status ended = work->wait(absl::Seconds(20));
  stream.synchronize();
  int64_t read = 0;
  y.download(&read);
  if (ended.ok())
    EXPECT_EQ(read, value);
  else
    EXPECT_EQ(error_reason(ended), Reason::kAborted) << ended;
  EXPECT_TRUE(destroy_process_group(group_).ok());
}

// NCCL keeps a communicator as long as a graph uses it; the host waits to its
// deadline, and says so.
TEST_F(GpuEnds, ALiveGraphKeepsItsCommunicator) {
  EXPECT_TRUE(set_timeout(group_, absl::Seconds(2)).ok());
  GpuStream stream(device());
  DeviceBytes y(device(), 8);
  stream.begin_capture(CaptureMode::kRelaxed);
  EXPECT_TRUE(all_reduce(on_device(y, DType::kI64), view(), ReduceOp::kMax,
                         {.group = group_, .stream = handle(stream)})
                  .ok());
  std::unique_ptr<GpuGraph> graph = stream.end_capture();
  const auto begun = Clock::now();
  const absl::Status ended = destroy_process_group(group_);
  EXPECT_LT(Clock::now() - begun, milliseconds(10000)) << ended;
  EXPECT_EQ(error_reason(ended), Reason::kTimedOut) << ended;
  EXPECT_THAT(ended.message(), HasSubstr("captured graph"));
  const int64_t value = 5;
  x_.upload(&value);
  graph->launch(stream);
  stream.synchronize();
  int64_t read = 0;
  y.download(&read);
  EXPECT_EQ(read, 5);
  graph = nullptr;
}

// The memory that a group has of the device comes back with its end.
TEST_F(GpuEnds, GroupsGiveTheirMemoryBack) {
  const auto make_and_end = [&] {
    const absl::StatusOr<Group> group = new_group();
    ASSERT_TRUE(group.ok()) << group.status();
    EXPECT_TRUE(all_reduce(view(), ReduceOp::kMax, {.group = *group}).ok());
    EXPECT_TRUE(destroy_process_group(*group).ok());
  };
  // Other ranks may have their memory on the same device.
  const auto free_when_all_have_ended = [&] {
    EXPECT_TRUE(barrier({.group = group_}).ok());
    const size_t bytes = free_bytes(device());
    EXPECT_TRUE(barrier({.group = group_}).ok());
    return bytes;
  };
  for (int i = 0; i < 3; ++i) make_and_end();
  const size_t before = free_when_all_have_ended();
  constexpr int kTimes = 100;
  for (int i = 0; i < kTimes; ++i) make_and_end();
  const size_t after = free_when_all_have_ended();
  const double lost =
      before < after ? 0 : static_cast<double>(before - after) / (1 << 20);
  std::printf("%d groups made and ended: %.1f MiB less free\n", kTimes, lost);
  EXPECT_LT(lost, 1.0 * kTimes) << "less than 1 MiB a group";
  EXPECT_TRUE(destroy_process_group(group_).ok());
}

TEST(GpuMemory, IsAllocatedByNccl) {
  const Group group = new_world();
  const absl::StatusOr<MemAllocator> allocator =
      get_mem_allocator(group, cuda_device());
  ASSERT_TRUE(allocator.ok()) << allocator.status();
  absl::StatusOr<Memory> memory = allocator->allocate(1 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const TensorView view = memory->view(DType::kF32);
  EXPECT_EQ(view.device(), cuda_device());
  EXPECT_TRUE(all_reduce(view, ReduceOp::kSum, {.group = group}).ok());
  EXPECT_TRUE(memory->release().ok());
  EXPECT_TRUE(destroy_process_group(group).ok());
}

// Each rank puts its values into the next one's part: the host waits, and then
// a stream.
TEST(GpuMemory, HasWindows) {
  const Group group = new_world();
  const int n = group.size(), me = group.rank();
  const absl::StatusOr<MemAllocator> allocator =
      get_mem_allocator(group, cuda_device());
  ASSERT_TRUE(allocator.ok()) << allocator.status();
  absl::StatusOr<Memory> memory = allocator->allocate(8192);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const TensorView view = memory->view(DType::kI64);
  const auto part = [&](int64_t from, int64_t count) {
    return TensorView(static_cast<int64_t*>(view.data()) + from, count,
                      DType::kI64, view.device());
  };
  const absl::StatusOr<Window> window =
      new_window({.group = group, .memory = view});
  if (window.ok()) {
    const Peer next = Peer::group((me + 1) % n);
    const Peer before = Peer::group((me + n - 1) % n);
    const OpOptions in_group = {.group = group};
    DeviceBytes mine(device(), 8), all(device(), static_cast<size_t>(8 * n));
    const int64_t value = 10 + me;
    mine.upload(&value);
    ASSERT_TRUE(all_gather_into_tensor(part(0, n), on_device(mine, DType::kI64),
                                       in_group)
                    .ok());
    // Every rank has got the value of the rank before it.
    const auto check = [&](int64_t at) {
      ASSERT_TRUE(all_gather_into_tensor(on_device(all, DType::kI64),
                                         part(at, 1), in_group)
                      .ok());
      std::vector<int64_t> got(static_cast<size_t>(n));
      all.download(got.data());
      for (int r = 0; r < n; ++r)
        EXPECT_EQ(got[static_cast<size_t>(r)], 10 + (r + n - 1) % n);
    };
    const absl::Status put =
        window->put_signal(part(me, 1), next, 512).status();
    EXPECT_TRUE(put.ok()) << put;
    const absl::Status waited = window->wait_signal(before).status();
    EXPECT_TRUE(waited.ok()) << waited;
    check(512);
    GpuStream stream(device());
    const Window streamed = window->on(handle(stream));
    EXPECT_TRUE(streamed.put_signal(part(me, 1), next, 600).ok());
    const auto wait = streamed.wait_signal(before);
    ASSERT_TRUE(wait.ok()) << wait.status();
    EXPECT_TRUE(wait->wait().ok());
    check(600);
    EXPECT_TRUE(window->destroy().ok());
  } else {
    EXPECT_NE(window.status().message().find("windows need NCCL 2.29.2"),
              absl::string_view::npos)
        << window.status();
  }
  EXPECT_TRUE(memory->release().ok());
  EXPECT_TRUE(destroy_process_group(group).ok());
}

// Two ranks on one GPU, which NCCL does not support, are named before NCCL is
// asked.
TEST(GpuSetup, TwoRanksOnOneGpuAreNamed) {
  if (std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") != nullptr)
    GTEST_SKIP() << "the ranks may share a GPU";
  const std::shared_ptr<Store> store = Store::in_memory();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      InitOptions options = session_options();
      options.rank = rank;
      options.world_size = 2;
      options.store = store;
      const absl::StatusOr<Session> session = Session::create(options);
      EXPECT_THAT(std::string(session.status().message()),
                  HasSubstr("same GPU as rank"));
    });
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace distwrap::gpu_test
