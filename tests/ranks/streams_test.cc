// Operations on the streams of a device: the order of operations, and the waits
// of the host.
#include "fakes/streams.h"

#include "distwrap/c.h"
#include "distwrap/distwrap.h"
#include "ranks/hub_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace distwrap {
namespace {

using fakes::Event;
using fakes::FakeStream;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

const InitOptions kOptions{.backend = "cpu:perfect,cuda:streams",
                           .timeout = absl::Seconds(60),
                           .init_timeout = absl::Seconds(60)};
constexpr Device kDevice{DW_DEVICE_CUDA, 0};

// Pretends that this is memory of the device.
TensorView on_device(Ints& values) {
  return TensorView(values.data(), static_cast<int64_t>(values.size()),
                    DType::kI64, kDevice);
}

void run(const std::function<void(int me)>& body) {
  testing::run_hub_ranks(2, kOptions,
                         [&](Session& session) { body(session.rank()); });
}

// The operation runs in order with the caller's own work, and the host
// continues at once.
TEST(Streams, ASynchronousCallIsEnqueued) {
  run([](int me) {
    FakeStream stream;
    Event gate;
    Ints x = {0}, y = {0};
    stream.put([&] {
      gate.wait();
      x[0] = me + 1;
    });
    const absl::StatusOr<Work> sum =
        all_reduce(on_device(x), ReduceOp::kSum, {.stream = stream.handle()});
    ASSERT_TRUE(sum.ok()) << sum.status();
    stream.put([&] { y = x; });
    EXPECT_FALSE(sum->test()) << "it waits for the gate";
    gate.happen();
    stream.synchronize();
    EXPECT_EQ(y, Ints{3});
    EXPECT_TRUE(sum->wait().ok());
  });
}

// Two calls in a row, and messages: all on one stream, and no Work is kept.
TEST(Streams, CallsOfOneStreamRunInTheirOrder) {
  run([](int me) {
    FakeStream stream;
    const OpOptions on{.stream = stream.handle()};
    Ints x = {me + 1}, got = {-1};
    for (int i = 0; i < 10; ++i)
      ASSERT_TRUE(all_reduce(on_device(x), ReduceOp::kSum, on).ok());
    if (me == 0) {
      EXPECT_TRUE(send(on_device(x), Peer::group(1), 4, on).ok());
    } else {
      const auto from = recv(on_device(got), Peer::group(0), 4, on);
      ASSERT_TRUE(from.ok()) << from.status();
      EXPECT_EQ(*from, 0);
    }
    ASSERT_TRUE(broadcast(on_device(got), Peer::group(1), on).ok());
    stream.synchronize();
    EXPECT_EQ(got, Ints{3 << 9});
  });
}

// K4: the host waits by one call, a stream by another.
TEST(Streams, K04_WaitingOfHostAndStreamAreTwoCalls) {
  std::atomic<bool> comes{false};
  run([&](int me) {
    FakeStream stream, other;
    Ints x = {me + 1}, y = {0};
    if (me == 1)
      while (!comes) std::this_thread::yield();
    const absl::StatusOr<Work> sum =
        all_reduce(on_device(x), ReduceOp::kSum,
                   {.async = true, .stream = stream.handle()});
    ASSERT_TRUE(sum.ok()) << sum.status();
    if (me == 0) {
      stream.synchronize();  // later work on the stream does not wait for it
      EXPECT_FALSE(sum->test());
      EXPECT_EQ(error_reason(sum->wait(absl::Milliseconds(10))),
                Reason::kWaitExpired);
    }
    ASSERT_TRUE(sum->wait_stream(other.handle()).ok());
    Event copied;
    other.put([&] {
      y = x;
      copied.happen();
    });
    if (me == 0) {
      EXPECT_FALSE(copied.has_happened()) << "the stream waits";
    }
    comes = true;
    copied.wait();
    EXPECT_EQ(y, Ints{3});
    EXPECT_TRUE(sum->wait().ok());
    EXPECT_TRUE(sum->wait_stream(other.handle()).ok()) << "it has ended";
  });
}

TEST(Streams, ABatchRunsAside) {
  run([](int me) {
    FakeStream stream;
    Event gate;
    Ints out = {0}, in = {-1}, sum = {me + 1}, copy = {-1};
    stream.put([&] {
      gate.wait();
      out[0] = 10 + me;
    });
    const OpOptions on{.stream = stream.handle()};
    Batch batch;
    batch.recv(on_device(in), Peer::group(1 - me), 0, on);
    batch.send(on_device(out), Peer::group(1 - me), 0, on);
    batch.all_reduce(on_device(sum), ReduceOp::kSum, on);
    const absl::StatusOr<Work> all = batch.submit();
    ASSERT_TRUE(all.ok()) << all.status();
    gate.happen();
    ASSERT_TRUE(all->wait_stream(stream.handle()).ok());
    stream.put([&] { copy = in; });
    stream.synchronize();
    EXPECT_EQ(copy, Ints{11 - me});
    EXPECT_EQ(sum, Ints{3});
    EXPECT_TRUE(all->wait().ok());
  });
}

// Several threads, each with a stream of its own.
TEST(Streams, ThreadsOfOneRank) {
  testing::run_hub_ranks(2, kOptions, [](Session& session) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        bind_session(session);
        FakeStream stream;
        const OpOptions on{.stream = stream.handle()};
        const Peer peer = Peer::group(1 - session.rank());
        for (int64_t i = 0; i < 20; ++i) {
          Ints out = {100 * t + i}, in = {-1};
          Batch batch;
          batch.recv(on_device(in), peer, t, on);
          batch.send(on_device(out), peer, t, on);
          const absl::StatusOr<Work> all = batch.submit();
          ASSERT_TRUE(all.ok()) << all.status();
          EXPECT_TRUE(all->wait().ok());
          EXPECT_EQ(in, out);
        }
        bind_session({});
      });
    for (std::thread& thread : threads) thread.join();
  });
}

// The stream continues, the group is broken.
TEST(Streams, ADeadlineEndsWhatIsOnAStream) {
  run([](int me) {
    if (me == 1) return;
    FakeStream stream;
    Ints x = {1};
    const OpOptions on{.timeout = absl::Milliseconds(50),
                       .stream = stream.handle()};
    const absl::StatusOr<Work> sum =
        all_reduce(on_device(x), ReduceOp::kSum, on);
    ASSERT_TRUE(sum.ok()) << sum.status();
    stream.synchronize();
    EXPECT_EQ(error_reason(sum->wait()), Reason::kTimedOut);
    EXPECT_EQ(error_reason(sum->wait_stream(stream.handle())),
              Reason::kTimedOut);
    EXPECT_EQ(
        error_reason(all_reduce(on_device(x), ReduceOp::kSum, on).status()),
        Reason::kGroupBroken);
  });
}

void expect_refused(const absl::Status& status, Reason reason,
                    const char* text) {
  EXPECT_EQ(error_reason(status), reason) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

// On one rank only: nothing was sent, and no sequence number was used.
TEST(Streams, WhatHasNoneRefusesThem) {
  run([](int me) {
    FakeStream stream;
    const OpOptions on{.stream = stream.handle()};
    const OpOptions elsewhere{.stream = {{DW_DEVICE_CUDA, 1}, &stream}};
    Ints x = {1}, y = {me};
    if (me == 0) {
      expect_refused(all_reduce(TensorView(x), ReduceOp::kSum, on).status(),
                     Reason::kUnsupported, "perfect");
      expect_refused(send(TensorView(x), Peer::group(1), 0, on),
                     Reason::kUnsupported, "perfect");
      expect_refused(barrier(on).status(), Reason::kUnsupported, "perfect");
      expect_refused(all_gather_object(Object(1), on).status(),
                     Reason::kUnsupported, "streams");
      expect_refused(monitored_barrier(on).status(), Reason::kUnsupported,
                     "streams");
      expect_refused(
          all_reduce(on_device(x), ReduceOp::kSum, elsewhere).status(),
          Reason::kInvalidArgument, "device");
      Batch batch;
      batch.all_reduce(TensorView(x), ReduceOp::kSum, on);
      expect_refused(batch.submit().status(), Reason::kUnsupported, "perfect");
    }
    EXPECT_EQ(x, Ints{1});
    const absl::StatusOr<Work> pending =
        all_reduce(TensorView(y), ReduceOp::kSum, {.async = true});
    ASSERT_TRUE(pending.ok()) << pending.status();
    expect_refused(pending->wait_stream(stream.handle()), Reason::kUnsupported,
                   "streams");
    EXPECT_TRUE(pending->wait().ok());
    EXPECT_EQ(pending->seq(), 1u);
    // In host order, the same backend waits.
    ASSERT_TRUE(all_reduce(on_device(y), ReduceOp::kSum).ok());
    EXPECT_EQ(y, Ints{2});
  });
}

TEST(Streams, InC) {
  run([](int me) {
    FakeStream stream, other;
    Event gate;
    Ints x = {me + 1}, y = {me + 1}, copy = {0};
    int64_t one = 1;
    const auto tensor_of = [&one](Ints& values) {
      distwrap_tensor tensor = {};
      tensor.data = values.data();
      tensor.device = {DW_DEVICE_CUDA, 0};
      tensor.ndim = 1;
      tensor.dtype = distwrap_dtype(DW_DTYPE_I64);
      tensor.shape = &one;
      return tensor;
    };
    const distwrap_tensor first = tensor_of(x), second = tensor_of(y);
    distwrap_op_options options = {};
    options.struct_size = sizeof options;
    options.stream = {DW_DEVICE_CUDA, 0, &stream};
    stream.put([&] { gate.wait(); });
    ASSERT_EQ(distwrap_all_reduce(&first, &first, DW_REDUCE_SUM, &options,
                                  nullptr, nullptr),
              DW_OK);
    distwrap_work work = nullptr;
    ASSERT_EQ(distwrap_all_reduce(&second, &second, DW_REDUCE_SUM, &options,
                                  &work, nullptr),
              DW_OK);
    EXPECT_EQ(x[0], me + 1) << "neither has begun";
    const dw_stream waits = {DW_DEVICE_CUDA, 0, &other};
    EXPECT_EQ(distwrap_work_wait_stream(work, &waits, nullptr), DW_OK);
    other.put([&] { copy = y; });
    gate.happen();
    stream.synchronize();
    EXPECT_EQ(x, Ints{3});
    other.synchronize();
    EXPECT_EQ(copy, Ints{3});
    EXPECT_EQ(distwrap_work_free(work), DW_OK);
  });
}

}  // namespace
}  // namespace distwrap
