// The order of operations on streams, and captured graphs.
#include "driver.h"
#include "world.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace distwrap::gpu_test {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr size_t kBytes = 1000;

Bytes read(const DeviceBytes& bytes) {
  Bytes values(bytes.size());
  bytes.download(values.data());
  return values;
}

class GpuStreams : public testing::Test {
 protected:
  void SetUp() override {
    group_ = new_world();
    // The first call connects the ranks.
    ASSERT_TRUE(barrier({.group = group_}).ok());
    ASSERT_TRUE(all_reduce(view(y_), ReduceOp::kMax, {.group = group_}).ok());
  }
  void TearDown() override { EXPECT_TRUE(destroy_process_group(group_).ok()); }

  static TensorView view(const DeviceBytes& bytes) {
    return on_device(bytes, DType::kU8);
  }
  OpOptions on(const GpuStream& stream, bool async = false) const {
    return {.group = group_, .async = async, .stream = handle(stream)};
  }

  Group group_;
  GpuStream stream_{device()}, other_{device()};
  DeviceBytes x_{device(), kBytes}, y_{device(), kBytes}, z_{device(), kBytes};
};

// The host goes on at once; what the stream has before comes first, and what
// comes later waits.
TEST_F(GpuStreams, AnOperationRunsBetweenItsNeighbours) {
  Gate gate;
  stream_.put(gate);
  stream_.set(x_, 7);
  const absl::StatusOr<Work> sum =
      all_reduce(view(y_), view(x_), ReduceOp::kMax, on(stream_));
  ASSERT_TRUE(sum.ok()) << sum.status();
  stream_.copy(z_, y_);
  EXPECT_FALSE(sum->test()) << "it waits for the gate";
  gate.open();
  stream_.synchronize();
  EXPECT_EQ(read(z_), Bytes(kBytes, 7));
  EXPECT_TRUE(sum->wait().ok());
}

TEST_F(GpuStreams, AsideTheStreamGoesOn) {
  Gate gate;
  other_.put(gate);
  other_.set(x_, 9);
  // Aside it waits for what is on `other_` now, so the gate holds it back.
  const absl::StatusOr<Work> sum =
      all_reduce(view(y_), view(x_), ReduceOp::kMax, on(other_, true));
  ASSERT_TRUE(sum.ok()) << sum.status();
  ASSERT_TRUE(sum->wait_stream(handle(stream_)).ok());
  stream_.copy(z_, y_);
  EXPECT_FALSE(stream_.is_idle()) << "it waits for the operation";
  EXPECT_EQ(sum->state(), WorkState::kQueued);
  gate.open();
  stream_.synchronize();
  EXPECT_EQ(read(z_), Bytes(kBytes, 9));
  EXPECT_TRUE(sum->wait().ok());
}

TEST_F(GpuStreams, ManyOfOneStreamKeepTheirOrder) {
  std::vector<Work> works;
  for (unsigned char i = 1; i <= 100; ++i) {
    stream_.set(x_, i);
    absl::StatusOr<Work> work =
        all_reduce(view(y_), view(x_), ReduceOp::kMax, on(stream_));
    ASSERT_TRUE(work.ok()) << work.status();
    works.push_back(*work);
  }
  EXPECT_TRUE(wait_all(works).ok());
  EXPECT_EQ(read(y_), Bytes(kBytes, 100));
}

// The callbacks of works come from the device's end, without anybody waiting.
TEST_F(GpuStreams, TheHostHearsOfTheEnd) {
  Gate gate;
  stream_.put(gate);
  const absl::StatusOr<Work> work =
      all_reduce(view(x_), ReduceOp::kMax, on(stream_));
  ASSERT_TRUE(work.ok()) << work.status();
  Gate heard;
  absl::Status status = absl::UnknownError("not called");
  work->on_done([&](const absl::Status& end) {
    status = end;
    heard.open();
  });
  gate.open();
  heard.wait();
  EXPECT_TRUE(status.ok()) << status;
}

// The context of the calling thread is as it was before.
TEST_F(GpuStreams, AThreadWithoutContextStaysWithout) {
  std::thread([&] {
    EXPECT_FALSE(has_context());
    EXPECT_TRUE(all_reduce(view(x_), ReduceOp::kMax, {.group = group_}).ok());
    EXPECT_FALSE(has_context());
  }).join();
}

class GpuGraphs : public GpuStreams,
                  public testing::WithParamInterface<CaptureMode> {};

TEST_P(GpuGraphs, RunAsOftenAsTheyAreLaunched) {
  stream_.begin_capture(GetParam());
  const absl::StatusOr<Work> sum =
      all_reduce(view(y_), view(x_), ReduceOp::kMax, on(stream_));
  EXPECT_TRUE(sum.ok()) << sum.status();
  // In a capture an operation aside runs on the caller's stream, too.
  const absl::StatusOr<Work> again =
      broadcast(view(z_), view(y_), Peer::group(0), on(stream_, true));
  EXPECT_TRUE(again.ok()) << again.status();
  std::unique_ptr<GpuGraph> graph = stream_.end_capture();
  EXPECT_EQ(read(y_), Bytes(kBytes, 0)) << "nothing has run";
  for (int i = 0; i < 1000; ++i) {
    stream_.set(x_, static_cast<unsigned char>(i % 251));
    graph->launch(stream_);
    if (i % 100 == 99) {
      stream_.synchronize();
      ASSERT_EQ(read(z_), Bytes(kBytes, static_cast<unsigned char>(i % 251)))
          << "replay " << i;
      // Other calls go on beside.
      ASSERT_TRUE(barrier({.group = group_}).ok());
    }
  }
  graph = nullptr;
}

// Another operation flies while a stream is captured: the thread that watches
// it does not end the capture.
TEST_P(GpuGraphs, AreNotDisturbedByOperationsInFlight) {
  Gate gate;
  other_.put(gate);
  const absl::StatusOr<Work> flies =
      all_reduce(view(x_), ReduceOp::kMax, on(other_, true));
  ASSERT_TRUE(flies.ok()) << flies.status();
  stream_.begin_capture(GetParam());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(flies->test());
  const absl::StatusOr<Work> captured =
      all_reduce(view(y_), ReduceOp::kMax, on(stream_));
  EXPECT_TRUE(captured.ok()) << captured.status();
  std::unique_ptr<GpuGraph> graph = stream_.end_capture();
  gate.open();
  EXPECT_TRUE(flies->wait().ok());
  graph->launch(stream_);
  stream_.synchronize();
  graph = nullptr;
}

INSTANTIATE_TEST_SUITE_P(Modes, GpuGraphs,
                         testing::Values(CaptureMode::kGlobal,
                                         CaptureMode::kThreadLocal,
                                         CaptureMode::kRelaxed),
                         [](const auto& mode) -> std::string {
                           switch (mode.param) {
                             case CaptureMode::kGlobal:
                               return "Global";
                             case CaptureMode::kThreadLocal:
                               return "ThreadLocal";
                             default:
                               return "Relaxed";
                           }
                         });

// A host call that waits inside a capture would wait for ever.
TEST_F(GpuStreams, NobodyWaitsInsideACapture) {
  stream_.begin_capture(CaptureMode::kRelaxed);
  const absl::StatusOr<Work> work =
      all_reduce(view(x_), ReduceOp::kMax, on(stream_));
  EXPECT_TRUE(work.ok()) << work.status();
  EXPECT_TRUE(work->wait().ok()) << "a captured call is done for the host";
  stream_.end_capture();
}

}  // namespace
}  // namespace distwrap::gpu_test
