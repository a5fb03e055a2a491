// Operations in captured streams.
#include "fake_nccl.h"
#include "fake_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

namespace distwrap::nccl_test {
namespace {

using fakes::gpu::Graph;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

dw_op sum(FakeRank& rank, const DeviceInts& x, CUstream_st& stream) {
  return rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream);
}

class NcclGraphs : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, NcclGraphs, testing::ValuesIn(versions()),
                         [](const auto& version) {
                           return std::to_string(version.param);
                         });

// A captured call runs when its graph does, and is finished for the host at
// once: it has no completion.
TEST_P(NcclGraphs, RunWhenTheyAreLaunched) {
  run_ranks({.size = 2, .version = GetParam()}, [](FakeRank& rank) {
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    Graph graph;
    fakes::gpu::begin_capture(&stream, &graph);
    dw_work work;
    EXPECT_EQ(rank.submit(sum(rank, x, stream), &work), DW_DONE)
        << rank.error.text;
    dw_op aside = sum(rank, x, stream);
    aside.flags |= DW_FLAG_ASIDE;
    EXPECT_EQ(rank.submit(aside, &work), DW_DONE) << rank.error.text;
    fakes::gpu::end_capture(&stream);
    EXPECT_EQ(work.completions(), 0);
    EXPECT_EQ(x.values(), Ints{1}) << "nothing has run";
    for (int i = 0; i < 10; ++i) fakes::gpu::launch(graph, &stream);
    stream.synchronize();
    EXPECT_EQ(x.values(), Ints{1 << 20});
    // Other calls go on beside.
    EXPECT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    graph.tasks.clear();
  });
}

// The instance's thread looks at events while a stream is captured in the
// global mode; in another mode it would end the capture.
TEST_P(NcclGraphs, AreNotDisturbedByOperationsInFlight) {
  run_ranks({.size = 1, .version = GetParam()}, [](FakeRank& rank) {
    CUstream_st stream(rank.device), captured(rank.device);
    fakes::gpu::Moment gate;
    const DeviceInts x(rank, {1}), y(rank, {1});
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    dw_work flying, in_graph;
    stream.put([&] { gate.wait(); });
    ASSERT_EQ(rank.submit(sum(rank, x, stream), &flying), DW_OK);
    Graph graph;
    fakes::gpu::begin_capture(&captured, &graph);
    EXPECT_EQ(rank.submit(sum(rank, y, captured), &in_graph), DW_DONE);
    EXPECT_EQ(nccl().progress(rank.backend), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fakes::gpu::end_capture(&captured);
    gate.happen();
    EXPECT_TRUE(flying.wait(std::chrono::seconds(10)));
    graph.tasks.clear();
  });
}

// Nor by what the captured thread itself, or another one, does meanwhile: some
// calls of the driver would end the capture.
TEST_P(NcclGraphs, AreNotDisturbedByMemorySetupsAndFailures) {
  run_ranks({.size = 1, .hints = {{"watch_replays", "1"}}}, [](FakeRank& rank) {
    CUstream_st stream(rank.device), captured(rank.device);
    const DeviceInts x(rank, {1}), y(rank, {1});
    Graph graph;
    fakes::gpu::begin_capture(&captured, &graph);
    dw_work works[2];
    EXPECT_EQ(rank.submit(sum(rank, x, captured), &works[0]), DW_DONE)
        << rank.error.text;
    dw_mem* mem = nullptr;
    void* data = nullptr;
    dw_window* window = nullptr;
    EXPECT_EQ(nccl().mem_alloc(rank.backend, 4096, &mem, &data, nullptr),
              DW_OK);
    ASSERT_EQ(rank.build_window(data, 4096, &window), DW_OK) << rank.error.text;
    EXPECT_EQ(rank.end_window(window), DW_OK) << rank.error.text;
    dw_op registered = rank.op(DW_OP_ALL_REDUCE, data, data, 1);
    registered.flags |= DW_FLAG_REGISTERED;
    EXPECT_EQ(rank.call(registered), DW_DONE) << rank.error.text;
    EXPECT_EQ(nccl().mem_release(rank.backend, mem, nullptr), DW_OK);
    fakes::gpu::fail_call(3, 2);
    EXPECT_EQ(rank.submit(sum(rank, y, stream), &works[1]), DW_INTERNAL);
    fakes::gpu::fail_call(0, 0);
    fakes::gpu::end_capture(&captured);
    graph.tasks.clear();
  });
}

TEST_P(NcclGraphs, NobodyWaitsInsideACapture) {
  run_ranks({.size = 1, .version = GetParam()}, [](FakeRank& rank) {
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    Graph graph;
    fakes::gpu::begin_capture(&stream, &graph);
    EXPECT_EQ(rank.call(sum(rank, x, stream)), DW_INVALID_ARGUMENT);
    EXPECT_THAT(rank.error.text, HasSubstr("wait for the stream on which"));
    fakes::gpu::end_capture(&stream);
    // The host may say so itself; on a stream that is not captured it is wrong.
    dw_op op = sum(rank, x, stream);
    op.flags |= DW_FLAG_CAPTURE;
    dw_work work;
    EXPECT_EQ(rank.submit(op, &work), DW_INVALID_ARGUMENT);
    EXPECT_TRUE(graph.tasks.empty());
  });
}

TEST_P(NcclGraphs, ABatchIsCapturedAsAWhole) {
  run_ranks({.size = 1, .version = GetParam()}, [](FakeRank& rank) {
    CUstream_st stream(rank.device), other(rank.device);
    const DeviceInts x(rank, {1}), y(rank, {1});
    Graph graph;
    fakes::gpu::begin_capture(&stream, &graph);
    const dw_op in = sum(rank, x, stream), out = sum(rank, y, other);
    dw_work works[2];
    const dw_group_item mixed[] = {{rank.comm, &in, &works[0]},
                                   {rank.comm, &out, &works[1]}};
    EXPECT_EQ(nccl().submit_group(rank.backend, mixed, 2, &rank.error),
              DW_INVALID_ARGUMENT);
    EXPECT_THAT(rank.error.text, HasSubstr("as a whole"));
    EXPECT_EQ(nccl().submit_group(rank.backend, mixed, 1, &rank.error),
              DW_DONE);
    fakes::gpu::end_capture(&stream);
    graph.tasks.clear();
  });
}

// NCCL's end waits for the last graph; the call keeps its deadline and says so.
TEST_P(NcclGraphs, AGraphKeepsItsCommunicator) {
  run_ranks({.size = 1, .version = GetParam()}, [](FakeRank& rank) {
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {3});
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    auto graph = std::make_unique<Graph>();
    fakes::gpu::begin_capture(&stream, graph.get());
    dw_work work;
    EXPECT_EQ(rank.submit(sum(rank, x, stream), &work), DW_DONE);
    fakes::gpu::end_capture(&stream);
    EXPECT_EQ(nccl().comm_destroy(rank.comm, conformance::now_ns() + 20'000'000,
                                  &rank.error),
              DW_DEADLINE_EXCEEDED);
    EXPECT_THAT(rank.error.text,
                AllOf(HasSubstr("captured graph"), Not(HasSubstr("ranks"))));
    rank.comm = nullptr;
    fakes::gpu::launch(*graph, &stream);
    stream.synchronize();
    EXPECT_EQ(x.values(), Ints{3});
    graph = nullptr;
    rank.close();
  });
}

constexpr int64_t kLimit = 60'000'000;

// A rank that launches its graph alone waits for ever, and is told so.
TEST_P(NcclGraphs, AReplayThatIsStuckEndsItsGroup) {
  run_ranks(
      {.size = 2, .version = GetParam(), .hints = {{"watch_replays", "1"}}},
      [](FakeRank& rank) {
        CUstream_st stream(rank.device);
        const DeviceInts x(rank, {1});
        ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)),
                  DW_DONE);
        Graph graph;
        fakes::gpu::begin_capture(&stream, &graph);
        dw_op op = sum(rank, x, stream);
        op.seq = 4;
        op.timeout_ns = kLimit;
        dw_work work;
        EXPECT_EQ(rank.submit(op, &work), DW_DONE) << rank.error.text;
        fakes::gpu::end_capture(&stream);
        fakes::gpu::launch(graph, &stream);
        stream.synchronize();
        rank.meeting.swap(rank.rank, "");
        if (rank.rank == 0) {
          // Others are behind the one that is stuck.
          for (int i = 0; i < 3; ++i) fakes::gpu::launch(graph, &stream);
          stream.synchronize();
          const dw_op next = rank.op(DW_OP_BARRIER, nullptr, nullptr, 0);
          EXPECT_EQ(rank.call(next), DW_DEADLINE_EXCEEDED);
          EXPECT_EQ(rank.error.reason, DW_REASON_TIMED_OUT);
          EXPECT_THAT(
              rank.error.text,
              HasSubstr("a replay of the captured all_reduce #4 has been "
                        "running for"));
        }
        rank.meeting.swap(rank.rank, "");
        graph.tasks.clear();
        nccl().comm_abort(rank.comm, nullptr);
      });
}

// Together they last longer than one of them may.
TEST_P(NcclGraphs, ReplaysThatGoOnAreNotStuck) {
  run_ranks(
      {.size = 2, .version = GetParam(), .hints = {{"watch_replays", "1"}}},
      [](FakeRank& rank) {
        CUstream_st stream(rank.device);
        const DeviceInts x(rank, {0});
        ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)),
                  DW_DONE);
        Graph graph;
        fakes::gpu::begin_capture(&stream, &graph);
        dw_op op = sum(rank, x, stream);
        op.timeout_ns = kLimit;
        dw_work work;
        EXPECT_EQ(rank.submit(op, &work), DW_DONE) << rank.error.text;
        stream.put(
            [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
        fakes::gpu::end_capture(&stream);
        for (int i = 0; i < 100; ++i) fakes::gpu::launch(graph, &stream);
        stream.synchronize();
        EXPECT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)),
                  DW_DONE)
            << rank.error.text;
        graph.tasks.clear();
      });
}

}  // namespace
}  // namespace distwrap::nccl_test
