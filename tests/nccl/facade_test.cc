// Calls of the facade on memory of fake devices.
#include "base/settings.h"
#include "distwrap/memory.h"
#include "facade_ranks.h"
#include "group/session_state.h"
#include "plugin/linked_in.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern "C" const dw_backend_api* dw_plugin_query_v1_nccl(const dw_host_info*);

namespace distwrap::nccl_test {
namespace {

using fakes::gpu::Moment;
using ::testing::HasSubstr;

TEST(NcclFacade, EveryCollective) {
  run(3, [](Session& session) {
    const int me = session.rank();
    const OnDevice x(me, {me, 10 + me, 20 + me}), all(me, Ints(9, -1));
    const OnDevice one(me, {me + 1}), three(me, {-1, -1, -1});
    ASSERT_TRUE(barrier().ok());
    EXPECT_TRUE(all_reduce(one.view(), ReduceOp::kSum).ok());
    EXPECT_EQ(one.values(), Ints{6});
    EXPECT_TRUE(broadcast(x.view(), Peer::group(2)).ok());
    EXPECT_EQ(x.values(), (Ints{2, 12, 22}));
    x.set({me, 10 + me, 20 + me});
    EXPECT_TRUE(all_gather_into_tensor(all.view(), x.view()).ok());
    EXPECT_EQ(all.values(), (Ints{0, 10, 20, 1, 11, 21, 2, 12, 22}));
    EXPECT_TRUE(all_to_all_single(three.view(), x.view()).ok());
    EXPECT_EQ(three.values(), (Ints{10 * me, 10 * me + 1, 10 * me + 2}));
    EXPECT_TRUE(
        reduce_scatter_tensor(one.view(), x.view(), ReduceOp::kSum).ok());
    EXPECT_EQ(one.values(), Ints{30 * me + 3});
    EXPECT_TRUE(all_gather_v(all.view(), x.view(), Ints{3, 3, 3}).ok());
    EXPECT_EQ(all.values(), (Ints{0, 10, 20, 1, 11, 21, 2, 12, 22}));
  });
}

// Memory of the allocator of the device, with a window on it.
struct DeviceWindow {
  explicit DeviceWindow(int rank) {
    const auto allocator = get_mem_allocator({}, Device{DW_DEVICE_CUDA, rank});
    EXPECT_TRUE(allocator.ok()) << allocator.status();
    memory = *allocator->allocate(128);
    view = memory.view(DType::kI64);
    const auto made = new_window({.memory = view});
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) window = *made;
  }
  TensorView part(size_t from, int64_t n) const {
    return TensorView(static_cast<int64_t*>(view.data()) + from, n, DType::kI64,
                      view.device());
  }
  int64_t at(size_t i) const {
    int64_t value = 0;
    fakes::gpu::read(&value, static_cast<int64_t*>(view.data()) + i, 8);
    return value;
  }
  void set(size_t i, int64_t value) const {
    fakes::gpu::write(static_cast<int64_t*>(view.data()) + i, &value, 8);
  }
  void end() {
    const absl::Status ended = window.destroy();
    EXPECT_TRUE(ended.ok()) << ended;
    EXPECT_TRUE(memory.release().ok());
  }

  Memory memory;
  TensorView view;
  Window window;
};

TEST(NcclFacade, AWindowOnMemoryOfTheDevice) {
  run(2, [](Session& session) {
    const int me = session.rank();
    const Peer other = Peer::group(1 - me);
    DeviceWindow on(me);
    ASSERT_TRUE(on.window);
    EXPECT_EQ(on.window.memory().device(), (Device{DW_DEVICE_CUDA, me}));
    // The host waits.
    on.set(0, 40 + me);
    absl::Status put = on.window.put_signal(on.part(0, 1), other, 8).status();
    EXPECT_TRUE(put.ok()) << put;
    const absl::Status waited = on.window.wait_signal(other).status();
    EXPECT_TRUE(waited.ok()) << waited;
    EXPECT_EQ(on.at(8), 41 - me);
    // The stream waits.
    CUstream_st stream(me);
    const Window streamed = on.window.on(handle(stream));
    fakes::gpu::Moment gate;
    int64_t seen = 0;
    stream.put([&] {
      gate.wait();
      on.set(1, 50 + me);
    });
    EXPECT_TRUE(streamed.put_signal(on.part(1, 1), other, 9).ok());
    const auto wait = streamed.wait_signal(other);
    ASSERT_TRUE(wait.ok()) << wait.status();
    stream.put([&] { seen = on.at(9); });
    gate.happen();
    EXPECT_TRUE(wait->wait().ok());
    stream.synchronize();
    EXPECT_EQ(seen, 51 - me);
    // A late wait changes nothing. The other rank may not wait meanwhile: what
    // it called then would be behind its own wait.
    if (me == 0) {
      const absl::Status late =
          on.window.wait_signal(other, {.timeout = absl::Milliseconds(20)})
              .status();
      EXPECT_EQ(error_reason(late), Reason::kTimedOut);
      EXPECT_THAT(late.message(), HasSubstr("did not signal in time"));
    }
    ASSERT_TRUE(barrier().ok());
    EXPECT_TRUE(me == 0 || on.window.signal(other).ok());
    EXPECT_TRUE(me == 1 || on.window.wait_signal(other).ok());
    on.end();
  });
}

// Each is refused before anything is sent, and the window goes on.
TEST(NcclFacade, WhatAWindowOfADeviceCannotDo) {
  run(2, [](Session& session) {
    const int me = session.rank();
    const Peer other = Peer::group(1 - me);
    DeviceWindow on(me);
    ASSERT_TRUE(on.window);
    const Window& w = on.window;
    const OnDevice elsewhere(me, {1});
    Ints host = {1};
    const auto refused = [](const absl::Status& status, const char* why) {
      EXPECT_THAT(status.message(), HasSubstr(why));
    };
    refused(w.put(on.part(0, 1), other, 8).status(), "call put_signal");
    refused(w.get(on.part(0, 1), other, 8).status(), "has no get on windows");
    refused(w.accumulate(on.part(0, 1), other, 8, ReduceOp::kSum).status(),
            "has no accumulate on windows");
    refused(w.flush().status(), "only put_signal, signal and wait_signal");
    refused(w.fence().status(), "only put_signal, signal and wait_signal");
    refused(w.signal(other, 3, 1, SignalHow::kAdd).status(),
            "have no index and no value");
    refused(w.wait_signal(3, Compare::kGe, 1).status(),
            "have no index and no value");
    refused(
        w.put_signal(on.part(0, 1), other, 8, 3, 1, SignalHow::kSet).status(),
        "have no index and no value");
    refused(w.put_signal(elsewhere.view(), other, 8).status(),
            "the source lies outside of it");
    refused(w.put_signal(on.part(0, 16), other, 1).status(),
            "reaches beyond the target's part");
    refused(w.put_signal(TensorView(host), other, 8).status(), "device");
    refused(w.map_remote(other).status(), "cannot reach another rank's part");
    refused(w.pages().status(), "not the host's");
    refused(on.memory.release(), "a window is on the memory");
    CUstream_st foreign(1 - me);
    refused(w.on(handle(foreign)).signal(other).status(),
            "does not belong to the backend's device");
    CUstream_st stream(me);
    fakes::gpu::Graph graph;
    fakes::gpu::begin_capture(&stream, &graph, 2);
    const Window captured = w.on(handle(stream));
    const char* const why = "cannot be captured into a graph";
    refused(captured.put_signal(on.part(0, 1), other, 8).status(), why);
    refused(captured.signal(other).status(), why);
    refused(captured.wait_signal(other).status(), why);
    fakes::gpu::end_capture(&stream);
    EXPECT_TRUE(graph.tasks.empty());
    // A handle on another stream forgets the first one.
    const Window there = w.on(handle(foreign)).on(handle(stream));
    EXPECT_TRUE(there.signal(other).ok());
    EXPECT_TRUE(w.wait_signal(other).ok());
    ASSERT_TRUE(barrier().ok());
    on.end();
    // Nor can a window be on other memory, or on parts of other sizes.
    refused(new_window({.memory = elsewhere.view()}).status(),
            "not of the group's allocator");
    refused(new_window({.count = 16, .backend = "nccl"}).status(),
            "allocates no memory");
  });
}

// The end of the group ends its windows, whatever they wait for.
TEST(NcclFacade, AGroupEndsItsWindows) {
  run(2, [](Session& session) {
    const int me = session.rank();
    const Peer other = Peer::group(1 - me);
    DeviceWindow on(me);
    ASSERT_TRUE(on.window);
    const auto never = on.window.wait_signal(other, {.async = true});
    ASSERT_TRUE(never.ok()) << never.status();
    ASSERT_TRUE(barrier().ok());
    EXPECT_TRUE(abort().ok());
    EXPECT_FALSE(never->wait().ok());
    EXPECT_FALSE(on.window.signal(other).ok());
  });
}

TEST(NcclFacade, AStreamAndTheHost) {
  run(2, [](Session& session) {
    const int me = session.rank();
    CUstream_st stream(me);
    Moment gate;
    const OnDevice x(me, {0}), y(me, {0});
    // The first call connects the ranks.
    ASSERT_TRUE(all_reduce(y.view(), ReduceOp::kSum).ok());
    stream.put([&] {
      gate.wait();
      x.set({me + 1});
    });
    const absl::StatusOr<Work> sum =
        all_reduce(x.view(), ReduceOp::kSum, {.stream = handle(stream)});
    ASSERT_TRUE(sum.ok()) << sum.status();
    stream.put([&] { y.set(x.values()); });
    EXPECT_FALSE(sum->test());
    gate.happen();
    stream.synchronize();
    EXPECT_EQ(y.values(), Ints{3});
    EXPECT_TRUE(sum->wait().ok());
  });
}

// NCCL keeps a communicator as long as a graph uses it, and the end of a group
// says so at its deadline.
TEST(NcclFacade, TheEndOfAGroupWithAGraphSaysWhy) {
  run(1, [](Session&) {
    const absl::StatusOr<Group> group =
        new_group({.timeout = absl::Milliseconds(100)});
    ASSERT_TRUE(group.ok()) << group.status();
    CUstream_st stream(0);
    const OnDevice x(0, {3}), y(0, {0});
    fakes::gpu::Graph graph;
    fakes::gpu::begin_capture(&stream, &graph);
    EXPECT_TRUE(all_reduce(y.view(), x.view(), ReduceOp::kSum,
                           {.group = *group, .stream = handle(stream)})
                    .ok());
    fakes::gpu::end_capture(&stream);
    const absl::Status ended = destroy_process_group(*group);
    EXPECT_EQ(error_reason(ended), Reason::kTimedOut) << ended;
    EXPECT_THAT(ended.message(), HasSubstr("captured graph"));
    EXPECT_TRUE(destroy_process_group(*group).ok());
    fakes::gpu::launch(graph, &stream);
    stream.synchronize();
    EXPECT_EQ(y.values(), Ints{3});
    graph.tasks.clear();
  });
}

// Rank 0 captures the call, rank 1 runs it: rank 1 would wait for ever.
TEST(NcclFacade, ACallThatOneRankCapturesIsAMismatch) {
  Moment told_to_rank_1, told_to_rank_0;
  run(2, [&](Session& session) {
    const int me = session.rank();
    const absl::StatusOr<Group> group = new_group(NewGroupOptions{});
    ASSERT_TRUE(group.ok()) << group.status();
    CUstream_st stream(me);
    const OnDevice x(me, {1});
    const OpOptions on{.group = *group, .stream = handle(stream)};
    ASSERT_TRUE(all_reduce(x.view(), ReduceOp::kSum, on)->wait().ok());
    fakes::gpu::Graph graph;
    if (me == 0) fakes::gpu::begin_capture(&stream, &graph);
    const absl::StatusOr<Work> differs =
        all_reduce(x.view(), ReduceOp::kSum, on);
    absl::Status told = differs.ok() ? differs->wait() : differs.status();
    if (me == 0) {
      EXPECT_TRUE(told.ok()) << told;
      fakes::gpu::end_capture(&stream);
      graph.tasks.clear();
      // The next call of rank 0 hears of the difference, at once or when it
      // waits; rank 1 stays in the group until then.
      told_to_rank_1.wait();
      const absl::StatusOr<Work> next =
          all_reduce(x.view(), ReduceOp::kSum, on);
      told = next.ok() ? next->wait() : next.status();
      told_to_rank_0.happen();
    } else {
      told_to_rank_1.happen();
      told_to_rank_0.wait();
    }
    EXPECT_THAT(told.message(), HasSubstr("captured")) << told;
    EXPECT_TRUE(error_reason(told) == Reason::kCallMismatch ||
                error_reason(told) == Reason::kGroupBroken)
        << told;
    EXPECT_TRUE(destroy_process_group(*group).ok());
  });
}

TEST(NcclFacade, TheWorkOfACapturedCallSaysSo) {
  run(1, [](Session& session) {
    CUstream_st stream(session.rank());
    const OnDevice x(0, {1}), y(0, {1});
    const absl::StatusOr<Group> group = new_group(NewGroupOptions{});
    ASSERT_TRUE(group.ok()) << group.status();
    OpOptions on{.group = *group, .stream = handle(stream)};
    const absl::StatusOr<Work> before =
        all_reduce(x.view(), ReduceOp::kSum, on);
    ASSERT_TRUE(before.ok()) << before.status();
    ASSERT_TRUE(before->wait().ok());
    EXPECT_EQ(before->state(), WorkState::kDone);
    fakes::gpu::Graph graph;
    fakes::gpu::begin_capture(&stream, &graph);
    on.timeout = absl::Milliseconds(1);
    std::vector<Work> works{*before};
    for (const bool async : {false, true}) {
      on.async = async;
      const absl::StatusOr<Work> work =
          all_reduce(x.view(), ReduceOp::kSum, on);
      ASSERT_TRUE(work.ok()) << work.status();
      works.push_back(*work);
    }
    Batch batch;
    on.async = false;
    batch.all_reduce(x.view(), ReduceOp::kSum, on);
    batch.all_reduce(y.view(), ReduceOp::kSum, on);
    const absl::StatusOr<Work> both = batch.submit();
    ASSERT_TRUE(both.ok()) << both.status();
    works.insert(works.end(), batch.works().begin(), batch.works().end());
    works.push_back(*both);
    fakes::gpu::end_capture(&stream);
    works.push_back(Work::all(works));
    for (size_t i = 1; i < works.size(); ++i) {
      EXPECT_EQ(works[i].state(), WorkState::kCaptured) << i;
      EXPECT_TRUE(works[i].test());
      // The deadline of the call is no deadline of the graph.
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      EXPECT_TRUE(works[i].wait().ok());
    }
    graph.tasks.clear();
  });
}

// The recorder knows the captured call, which was done at once, and the next
// call, which says what has happened.
TEST(NcclFacade, AStuckReplayIsInTheNextCallNotInTheRecording) {
  Moment over;
  std::string folder = testing::TempDir() + "/nccl_recording_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  run(2,
      [&](Session& session) {
        const int me = session.rank();
        CUstream_st stream(me);
        const OnDevice x(me, {1});
        const absl::StatusOr<Group> group = new_group(NewGroupOptions{});
        ASSERT_TRUE(group.ok()) << group.status();
        OpOptions on{.group = *group, .stream = handle(stream)};
        ASSERT_TRUE(all_reduce(x.view(), ReduceOp::kSum, on)->wait().ok());
        fakes::gpu::Graph graph;
        fakes::gpu::begin_capture(&stream, &graph);
        on.timeout = absl::Milliseconds(60);
        on.label = "captured";
        const absl::StatusOr<Work> captured =
            all_reduce(x.view(), ReduceOp::kSum, on);
        ASSERT_TRUE(captured.ok()) << captured.status();
        EXPECT_EQ(captured->state(), WorkState::kCaptured);
        fakes::gpu::end_capture(&stream);
        if (me == 1) return over.wait();
        fakes::gpu::launch(graph, &stream);  // rank 1 does not
        stream.synchronize();
        on.label = "next";
        const absl::StatusOr<Work> next =
            all_reduce(x.view(), ReduceOp::kSum, on);
        const absl::Status told = next.ok() ? next->wait() : next.status();
        EXPECT_EQ(error_reason(told), Reason::kTimedOut) << told;
        EXPECT_THAT(told.message(),
                    HasSubstr("a replay of the captured all_reduce #"));
        const absl::StatusOr<std::string> path = session.save_recording();
        ASSERT_TRUE(path.ok()) << path.status();
        std::ifstream file(*path);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        EXPECT_THAT(text, testing::ContainsRegex(
                              R"("label": "captured"[^}]*"state": "done")"));
        EXPECT_THAT(text, testing::ContainsRegex(
                              R"("label": "next"[^}]*"state": "kTimedOut")"));
        graph.tasks.clear();
        over.happen();
      },
      {{"watch_replays", "1"}}, {{"DISTWRAP_RECORDER_DIR", folder}});
  std::filesystem::remove_all(folder);
}

TEST(NcclFacade, ABatchOfMessages) {
  run(2, [](Session& session) {
    const int me = session.rank();
    const OnDevice out(me, {10 + me}), in(me, {-1});
    Batch batch;
    batch.send(out.view(), Peer::group(1 - me));
    batch.recv(in.view(), Peer::group(1 - me));
    const absl::StatusOr<Work> all = batch.submit();
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_TRUE(all->wait().ok());
    EXPECT_EQ(in.values(), Ints{11 - me});
  });
}

// With the hint, groups are split by NCCL if all ranks of the parent make one.
TEST(NcclFacade, SubGroupsAreSplitIfAllRanksAreInOne) {
  fakes::gpu::take_notes();
  const auto body = [](Session& session) {
    const int me = session.rank();
    using Lists = std::vector<std::vector<int>>;
    for (const Lists& lists : {Lists{{0, 2}, {1}}, Lists{{0, 2}}}) {
      const absl::StatusOr<Group> part = split_group({.split_ranks = lists});
      ASSERT_TRUE(part.ok()) << part.status();
      if (lists.size() == 1 && me == 1) continue;
      const OnDevice x(me, {me + 1});
      EXPECT_TRUE(all_reduce(x.view(), ReduceOp::kSum, {.group = *part}).ok());
      EXPECT_EQ(x.values(), Ints{me == 1 ? 2 : 4});
    }
  };
  run(3, body, {{"split", "1"}});
  EXPECT_THAT(fakes::gpu::take_notes(),
              testing::Contains("ncclCommSplit").Times(3));
}

TEST(NcclFacade, SubGroupsAreBuiltAnew) {
  run(3, [](Session& session) {
    const int me = session.rank();
    const absl::StatusOr<Group> half =
        split_group({.split_ranks = {{0, 2}, {1}}});
    ASSERT_TRUE(half.ok()) << half.status();
    const OnDevice x(me, {me + 1});
    EXPECT_TRUE(all_reduce(x.view(), ReduceOp::kSum, {.group = *half}).ok());
    EXPECT_EQ(x.values(), Ints{me == 1 ? 2 : 4});
  });
}

// Rank 1 never calls: the deadline names it, on a stream too.
TEST(NcclFacade, ALateRankIsNamed) {
  run(2, [](Session& session) {
    const int me = session.rank();
    const OnDevice x(me, {1});
    if (me == 1) return;
    CUstream_st stream(me);
    const absl::StatusOr<Work> sum = all_reduce(
        x.view(), ReduceOp::kSum,
        {.timeout = absl::Milliseconds(100), .stream = handle(stream)});
    const absl::Status status = sum.ok() ? sum->wait() : sum.status();
    EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
    EXPECT_EQ(error_reason(all_reduce(x.view(), ReduceOp::kSum).status()),
              Reason::kGroupBroken);
    stream.synchronize();
  });
}

void wait_until(const Work& work, WorkState state) {
  for (int i = 0; i < 10000 && work.state() != state; ++i)
    absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(work.state(), state);
}

// The recorder's word for the state of the last operation.
std::string recorded_state(Session& session) {
  const absl::StatusOr<std::string> path = session.save_recording();
  EXPECT_TRUE(path.ok()) << path.status();
  std::ifstream file(*path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::string key = "\"state\": \"";
  const size_t at = text.rfind(key) + key.size();
  return text.substr(at, text.find('"', at) - at);
}

// An operation is queued until its stream has come to it, and runs from then
// on. What the backend has cannot be taken back.
TEST(NcclFacade, AnOperationIsQueuedUntilTheDeviceBeginsIt) {
  Moment comes;
  run(2, [&](Session& session) {
    const int me = session.rank();
    CUstream_st stream(me);
    Moment gate;
    const OnDevice x(me, {1});
    ASSERT_TRUE(all_reduce(x.view(), ReduceOp::kSum).ok());
    if (me == 1) comes.wait();
    stream.put([&] { gate.wait(); });
    const absl::StatusOr<Work> sum =
        all_reduce(x.view(), ReduceOp::kSum, {.stream = handle(stream)});
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(sum->state(), WorkState::kQueued);
    EXPECT_EQ(error_reason(sum->cancel()), Reason::kAlreadySubmitted);
    if (me == 0) {
      EXPECT_EQ(recorded_state(session), "queued");
    }
    gate.happen();
    if (me == 0) {
      wait_until(*sum, WorkState::kRunning);
      EXPECT_EQ(recorded_state(session), "running");
      comes.happen();
    }
    EXPECT_TRUE(sum->wait().ok());
    EXPECT_EQ(recorded_state(session), "done");
  });
}

// Rank 1 does not come: the first call has been running on the device, and the
// second is queued behind it.
TEST(NcclFacade, ATimeOutSaysWhatTheDeviceDoes) {
  run(2, [](Session& session) {
    const int me = session.rank();
    const OnDevice x(me, {1});
    ASSERT_TRUE(all_reduce(x.view(), ReduceOp::kSum).ok());
    if (me == 1) return;
    CUstream_st stream(me);
    const auto sum = [&](absl::Duration timeout) {
      return all_reduce(x.view(), ReduceOp::kSum,
                        {.timeout = timeout, .stream = handle(stream)});
    };
    const absl::StatusOr<Work> first = sum(absl::Seconds(50));
    ASSERT_TRUE(first.ok()) << first.status();
    wait_until(*first, WorkState::kRunning);
    const absl::StatusOr<Work> second = sum(absl::Milliseconds(50));
    ASSERT_TRUE(second.ok()) << second.status();
    const absl::Status late = second->wait();
    EXPECT_EQ(error_reason(late), Reason::kTimedOut);
    EXPECT_THAT(
        std::string(late.message()),
        testing::ContainsRegex("device has not begun the operation in time.*"
                               "queued behind all_reduce #[0-9]+, which has "
                               "been running for [0-9]+ms"));
    stream.synchronize();
  });
  run(2, [](Session& session) {
    const int me = session.rank();
    const OnDevice x(me, {1});
    ASSERT_TRUE(all_reduce(x.view(), ReduceOp::kSum).ok());
    if (me == 1) return;
    CUstream_st stream(me);
    const absl::StatusOr<Work> sum = all_reduce(
        x.view(), ReduceOp::kSum,
        {.timeout = absl::Milliseconds(50), .stream = handle(stream)});
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_THAT(std::string(sum->wait().message()),
                testing::ContainsRegex("on the device it has been running for "
                                       "[0-9]+ms"));
    stream.synchronize();
  });
}

// NCCL would wait for ever; the fakes name the mistake.
TEST(NcclFacade, GroupsInOtherOrdersOnOneStreamAreStuck) {
  const fakes::gpu::Collected collected;
  std::atomic<int> launched = 0;
  run(2, [&](Session& session) {
    const int me = session.rank();
    CUstream_st stream(me);
    const OnDevice x(me, {1}), y(me, {1});
    Group groups[2];
    for (Group& group : groups) {
      const absl::StatusOr<Group> made = new_group(NewGroupOptions{});
      ASSERT_TRUE(made.ok()) << made.status();
      group = *made;
      ASSERT_TRUE(all_reduce(x.view(), ReduceOp::kSum, {.group = group}).ok());
    }
    const auto sum = [&](int of, const OnDevice& on) {
      return all_reduce(on.view(), ReduceOp::kSum,
                        {.group = groups[of], .stream = handle(stream)});
    };
    const absl::StatusOr<Work> first = sum(me, x), second = sum(1 - me, y);
    ASSERT_TRUE(first.ok() && second.ok());
    ++launched;
    while (launched < 2) std::this_thread::yield();
    for (const Group& group : groups) EXPECT_TRUE(abort(group).ok());
    // With the abort of one group the operations of the other one meet, and may
    // end before its abort comes to NCCL.
    const bool ended[] = {first->wait().ok(), second->wait().ok()};
    EXPECT_FALSE(ended[0] && ended[1]);
    stream.synchronize();
  });
  EXPECT_THAT(collected.rules(),
              testing::ElementsAre("other order across communicators"));
}

TEST(NcclFacade, FloatsOf8BitsBelowSm90) {
  fakes::gpu::set_machine(64, 8);
  run(1, [](Session& /*session*/) {
    const OnDevice x(0, {0});
    const TensorView floats(x.view().data(), 8, DType::kF8E4M3FN,
                            x.view().device());
    const absl::Status told = all_reduce(floats, ReduceOp::kSum).status();
    // The error lists the types that are reduced here.
    EXPECT_THAT(told.message(),
                testing::AllOf(HasSubstr("has no all_reduce for f8e4m3fn"),
                               HasSubstr("f16 with sum")));
    EXPECT_TRUE(broadcast(floats, Peer::group(0)).ok());
  });
  fakes::gpu::set_machine(64, 9);
}

class NcclFacadeChaos : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, NcclFacadeChaos,
                         testing::ValuesIn(versions()),
                         [](const auto& version) {
                           return std::to_string(version.param);
                         });

// F20: threads with streams of their own call on one group.
TEST_P(NcclFacadeChaos, ManyThreadsOnAGroup) {
  constexpr int kThreads = 8, kCalls = 20;
  const auto body = [](Session& session) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&session, t] {
        bind_session(session);
        CUstream_st stream(0);
        const OnDevice x(0, {t}), y(0, {-1});
        for (int i = 0; i < kCalls; ++i) {
          const bool async = i % 2 == 0;
          const absl::StatusOr<Work> sum = all_gather_into_tensor(
              y.view(), x.view(), {.async = async, .stream = handle(stream)});
          ASSERT_TRUE(sum.ok()) << sum.status();
          ASSERT_TRUE(sum->wait().ok());
          ASSERT_EQ(y.values(), Ints{t});
          y.set({-1});
        }
        bind_session({});
      });
    for (std::thread& thread : threads) thread.join();
  };
  run(1, body, {{"nccl_library", fake_nccl(GetParam())}});
}

// F9: calls that differ in one property are named on both ranks, by the call or
// at the latest by the end of the group. NCCL may have launched them.
TEST_P(NcclFacadeChaos, CallsThatDifferAreMismatches) {
  using Make = std::function<absl::Status(int me, const OnDevice& x,
                                          const OnDevice& y, OpOptions in)>;
  const std::vector<std::pair<const char*, Make>> all = {
      {"operation",
       [](int me, const OnDevice& x, const OnDevice&, OpOptions in) {
         return me == 0 ? all_reduce(x.view(), ReduceOp::kSum, in).status()
                        : broadcast(x.view(), Peer::group(0), in).status();
       }},
      {"count",
       [](int me, const OnDevice& x, const OnDevice& y, OpOptions in) {
         return all_reduce(me == 0 ? x.view() : y.view(), ReduceOp::kSum, in)
             .status();
       }},
      {"reduction",
       [](int me, const OnDevice& x, const OnDevice&, OpOptions in) {
         return all_reduce(x.view(), me == 0 ? ReduceOp::kSum : ReduceOp::kMax,
                           in)
             .status();
       }},
      {"root",
       [](int me, const OnDevice& x, const OnDevice&, OpOptions in) {
         return broadcast(x.view(), Peer::group(me), in).status();
       }},
      {"element type",
       [](int me, const OnDevice& x, const OnDevice&, OpOptions in) {
         TensorView view = x.view();
         if (me == 1)
           view = TensorView(view.data(), view.count(), DType::kU64,
                             view.device());
         return all_reduce(view, ReduceOp::kSum, in).status();
       }},
  };
  for (const auto& [property, make] : all) {
    SCOPED_TRACE(property);
    const fakes::gpu::Collected collected;
    const auto body = [&, call = make](Session& session) {
      const int me = session.rank();
      const absl::StatusOr<Group> group = new_group(NewGroupOptions{});
      ASSERT_TRUE(group.ok()) << group.status();
      const OnDevice x(me, {1, 2}), y(me, {1});
      const OpOptions in{.group = *group};
      ASSERT_TRUE(all_reduce(x.view(), ReduceOp::kSum, in).ok());
      absl::Status told = call(me, x, y, in);
      const absl::Status ended = destroy_process_group(*group);
      if (told.ok()) told = ended;
      EXPECT_EQ(error_reason(told), Reason::kCallMismatch) << told;
    };
    run(2, body, {{"nccl_library", fake_nccl(GetParam())}});
    EXPECT_THAT(collected.rules(), testing::Each("different calls"));
  }
}

// Memory of the backend is registered with the group's communicator, so all
// ranks have to use such memory, or none.
TEST(NcclFacade, MemoryOfTheBackendOnOneRankIsAMismatch) {
  fakes::gpu::take_notes();
  // NCCL may have launched the call when the host finds that it differs.
  const fakes::gpu::Collected collected;
  run(2, [](Session& session) {
    const int me = session.rank();
    const Device device{DW_DEVICE_CUDA, me};
    const absl::StatusOr<Group> group = new_group(NewGroupOptions{});
    ASSERT_TRUE(group.ok()) << group.status();
    absl::StatusOr<MemAllocator> allocator = get_mem_allocator(*group, device);
    ASSERT_TRUE(allocator.ok()) << allocator.status();
    absl::StatusOr<Memory> memory = allocator->allocate(8);
    ASSERT_TRUE(memory.ok()) << memory.status();
    const OnDevice other(me, {1});
    const OpOptions in{.group = *group};
    const TensorView own = memory->view(DType::kI64);
    EXPECT_TRUE(all_reduce(own, ReduceOp::kSum, in).ok());
    absl::Status differs =
        all_reduce(me == 0 ? own : other.view(), ReduceOp::kSum, in).status();
    // The fake has moved the data all the same; then the end tells.
    const absl::Status ended = destroy_process_group(*group);
    if (differs.ok()) differs = ended;
    EXPECT_THAT(std::string(differs.message()),
                HasSubstr("in the backend's memory"));
    EXPECT_TRUE(error_reason(differs) == Reason::kCallMismatch ||
                error_reason(differs) == Reason::kGroupBroken)
        << differs;
    EXPECT_TRUE(memory->release().ok());
  });
  EXPECT_THAT(fakes::gpu::take_notes(),
              testing::Contains("ncclCommRegister").Times(2));
  EXPECT_THAT(collected.rules(),
              testing::Each("registered on some ranks only"));
}

// NCCL's finalize and its destroy fail. The program hears it.
TEST(NcclFacade, AnEndThatNcclRefusesIsAnError) {
  using fakes::gpu::Calls;
  for (const auto& [sort, call] :
       {std::pair(Calls::kOthers, "ncclCommFinalize"),
        std::pair(Calls::kDestroy, "ncclCommDestroy")})
    run(1, [&, sort = sort, call = call](Session&) {
      const absl::StatusOr<Group> group = new_group(NewGroupOptions{});
      ASSERT_TRUE(group.ok()) << group.status();
      const OnDevice x(0, {1});
      ASSERT_TRUE(
          all_reduce(x.view(), ReduceOp::kSum, OpOptions{.group = *group})
              .ok());
      absl::Status seen;
      const Hook hook = *add_hook(
          *group, {.post = [&](const HookedCall&, const absl::Status& status) {
            seen = status;
          }});
      fakes::gpu::fail_call(1, 5, sort);
      const absl::Status ended = destroy_process_group(*group);
      fakes::gpu::fail_call(0, 0);
      EXPECT_EQ(seen, ended);
      EXPECT_EQ(error_reason(ended), Reason::kBackendFailed) << ended;
      EXPECT_THAT(
          std::string(ended.message()),
          testing::AllOf(HasSubstr(call), HasSubstr("the group has ended"),
                         HasSubstr("a fake NCCL's error")));
    });
}

// Without a device_id, the launcher's local rank chooses the device.
TEST(NcclFacade, TheLocalRankChoosesTheDevice) {
  InitOptions options;
  options.backend = "cuda:nccl";
  options.store = Store::in_memory();
  const std::map<std::string, std::string> variables = {
      {"DISTWRAP_RANK", "6"},
      {"DISTWRAP_WORLD_SIZE", "8"},
      {"DISTWRAP_LOCAL_RANK", "2"},
      {"DISTWRAP_LOCAL_WORLD_SIZE", "4"},
      {"DISTWRAP_STORE", "unix:/tmp/store"}};
  absl::StatusOr<group::SessionPlan> plan =
      group::plan_session(options, base::Environment(variables));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->device_id, 2);
  options.device_id = 5;
  plan = group::plan_session(options, base::Environment(variables));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->device_id, 5);
}

TEST(NcclFacade, MissingLibrariesAreNamedAtTheStart) {
  InitOptions options;
  options.backend = "cuda:nccl";
  options.rank = 0;
  options.world_size = 1;
  options.hints = {{"nccl_library", "/nowhere/libnccl.so.2"},
                   {"cuda_driver", fake_driver()}};
  absl::StatusOr<group::SessionPlan> plan = group::plan_session(
      options, base::Environment(std::map<std::string, std::string>{}));
  ASSERT_TRUE(plan.ok());
  const std::vector<plugin::LinkedIn> linked = {
      {"nccl", dw_plugin_query_v1_nccl}};
  plan->linked_in = linked;
  const auto state = group::SessionState::create(*plan);
  EXPECT_THAT(std::string(state.status().message()),
              HasSubstr("/nowhere/libnccl.so.2"));
}

}  // namespace
}  // namespace distwrap::nccl_test
