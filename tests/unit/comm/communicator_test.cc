// The host's side of every answer that a backend may give.
#include "base/error.h"
#include "comm/batch_record.h"
#include "comm/on_stream.h"
#include "unit/comm/communicator_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace distwrap::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(CommunicatorTest, HandsDownAWholeDescriptor) {
  start(absl::Seconds(7));
  dw_op seen{};
  fake_.submit = [&](const dw_op& op, dw_work* work, dw_error*) {
    seen = op;
    EXPECT_EQ(work, nullptr) << "a waiting caller needs no cell";
    return DW_DONE;
  };
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(seen.struct_size, sizeof(dw_op));
  EXPECT_EQ(seen.kind, DW_OP_ALL_REDUCE);
  EXPECT_EQ(seen.reduce, DW_REDUCE_SUM);
  EXPECT_EQ(seen.flags, DW_FLAG_CALLER_WAITS | DW_FLAG_IN_PLACE);
  EXPECT_EQ(seen.peer, -1);
  EXPECT_EQ(seen.in.data, x_.data());
  EXPECT_EQ(seen.out.count, 8);
  EXPECT_EQ(seen.out.dtype.bits, 32);
  EXPECT_EQ(seen.seq, 1u);
  EXPECT_EQ(seen.timeout_ns, 7'000'000'000);
  EXPECT_EQ(seen.deadline_ns, 0) << "nobody read the clock";
  ASSERT_TRUE(comm_->barrier({.timeout = absl::InfiniteDuration()}).ok());
  EXPECT_EQ(seen.seq, 2u);
  EXPECT_EQ(seen.timeout_ns, 0);
}

TEST_F(CommunicatorTest, HandsDownCountsPerRank) {
  start();
  dw_op seen{};
  fake_.submit = [&](const dw_op& op, dw_work*, dw_error*) {
    seen = op;
    return DW_DONE;
  };
  const std::vector<int64_t> counts{2, 0, 1, 3}, displs{0, 2, 3, 5};
  ASSERT_TRUE(comm()
                  .all_gather_v(TensorView(x_), TensorView(y_.data(), 2),
                                {counts, displs})
                  .ok());
  EXPECT_EQ(seen.kind, DW_OP_ALL_GATHER);
  EXPECT_EQ(seen.flags, DW_FLAG_CALLER_WAITS | DW_FLAG_PER_RANK);
  EXPECT_EQ(seen.out.counts, counts.data());
  EXPECT_EQ(seen.out.displs, displs.data());
  EXPECT_EQ(seen.out.count, 6) << "of all pieces together";
  EXPECT_EQ(seen.in.counts, nullptr);
  EXPECT_EQ(seen.in.count, 2);

  // Off the root the form is the same, without the root's arrays.
  ASSERT_TRUE(comm()
                  .gather_v(TensorView(), TensorView(y_.data(), 2), 3, {counts})
                  .ok());
  EXPECT_EQ(seen.flags, DW_FLAG_CALLER_WAITS | DW_FLAG_PER_RANK);
  EXPECT_EQ(seen.out.counts, nullptr);
  EXPECT_EQ(seen.out.count, 0);
  ASSERT_TRUE(
      comm().exscan(TensorView(x_), TensorView(y_), ReduceOp::kMax).ok());
  EXPECT_EQ(seen.kind, DW_OP_SCAN);
  EXPECT_EQ(seen.flags, DW_FLAG_CALLER_WAITS | DW_FLAG_EXCLUSIVE);
}

// The decorator above the backend sees the extension, though a plain
// all_to_all_v goes below without it.
TEST_F(CommunicatorTest, HandsDownExtensions) {
  start();
  dw_op seen{};
  std::vector<dw_work*> pending;
  fake_.submit = [&](const dw_op& op, dw_work* work, dw_error*) {
    seen = op;
    if (work != nullptr) pending.push_back(work);
    return work == nullptr ? int32_t{DW_DONE} : int32_t{DW_OK};
  };
  const std::vector<int64_t> counts{2, 0, 1, 3};
  const dw_ext known = {sizeof(dw_ext), 0, {"x-a", 3}, nullptr};
  AnyCall call;
  call.in = call.out = TensorView(nullptr, 0, DType::kU8);
  call.per_rank = true;
  call.in_counts = call.out_counts = {counts};
  call.next = &known;
  call.placed_by_extension = true;
  ASSERT_TRUE(comm_->run_any(DW_OP_ALL_TO_ALL, call, {}).ok());
  EXPECT_EQ(seen.next, &known);
  EXPECT_EQ(seen.flags & DW_FLAG_PER_RANK, DW_FLAG_PER_RANK);
  EXPECT_EQ(seen.in.count, 6);
  EXPECT_EQ(seen.in.data, nullptr);
  seen = {};
  absl::StatusOr<Work> work =
      comm_->run_any(DW_OP_ALL_TO_ALL, call, {.async = true});
  ASSERT_TRUE(work.ok()) << work.status();
  EXPECT_EQ(seen.next, &known);
  for (dw_work* const one : pending) fake_.complete(one, DW_OK);
  EXPECT_TRUE(work->wait().ok());
  ASSERT_TRUE(comm().barrier().ok());
  EXPECT_EQ(seen.next, nullptr);
}

TEST_F(CommunicatorTest, TheFactorArrivesInTheElementsType) {
  start();
  const auto reduce = [&](ReduceOp op, bool async) {
    return comm_->all_reduce(TensorView(x_), TensorView(x_), op,
                             {.async = async});
  };
  dw_work* pending = nullptr;
  const float* scale = nullptr;
  fake_.submit = [&](const dw_op& op, dw_work* work, dw_error*) {
    EXPECT_EQ(op.reduce, DW_REDUCE_PREMUL_SUM);
    scale = static_cast<const float*>(op.scale);
    EXPECT_EQ(*scale, 0.5f);
    pending = work;
    return work == nullptr ? DW_DONE : DW_OK;
  };
  ASSERT_TRUE(reduce(ReduceOp::premul_sum(0.5), false).ok());
  const auto work = reduce(ReduceOp::premul_sum(0.5), true);
  ASSERT_TRUE(work.ok());
  EXPECT_EQ(*scale, 0.5f) << "a number lives as long as its operation";
  fake_.complete(pending, DW_OK);
  float factor = 0.5f;
  ASSERT_TRUE(reduce(ReduceOp::premul_sum(TensorView(&factor, 1)), false).ok());
  EXPECT_EQ(scale, &factor) << "a tensor is read where it is";
}

TEST_F(CommunicatorTest, AgainIsTriedAgain) {
  start();
  int busy = 5;
  fake_.submit = [&](const dw_op&, dw_work*, dw_error*) {
    return busy-- > 0 ? DW_AGAIN : DW_DONE;
  };
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(fake_.submits, 6);
}

TEST_F(CommunicatorTest, AgainForEverEndsAtTheDeadline) {
  start(absl::Milliseconds(50));
  fake_.submit = [](const dw_op&, dw_work*, dw_error*) { return DW_AGAIN; };
  EXPECT_EQ(call().status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(CommunicatorTest, ARefusalOfTheBackendBreaksNothing) {
  start();
  fake_.submit = [](const dw_op&, dw_work*, dw_error* error) {
    set_error(error, DW_REASON_UNSUPPORTED, -1, "not today");
    return DW_UNIMPLEMENTED;
  };
  for (const bool async : {false, true}) {
    const absl::Status status = call({.async = async}).status();
    EXPECT_EQ(error_reason(status), Reason::kUnsupported) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("fake: not today"));
  }
  EXPECT_EQ(fake_.aborts, 0);
  dw_op seen{};
  fake_.submit = [&](const dw_op& op, dw_work*, dw_error*) {
    seen = op;
    return DW_DONE;
  };
  EXPECT_TRUE(call().ok());
  EXPECT_EQ(seen.seq, 1u) << "refused calls have used no sequence number";
}

TEST_F(CommunicatorTest, AFailureNamesThePeerAndBreaksTheGroup) {
  start();
  fake_.submit = [](const dw_op&, dw_work*, dw_error* error) {
    set_error(error, DW_REASON_PEER_LOST, 3, "fake: line cut");
    return DW_UNAVAILABLE;
  };
  const absl::Status status = call().status();
  EXPECT_EQ(error_reason(status), Reason::kPeerLost);
  EXPECT_THAT(error_info(status)->ranks, ElementsAre(3));
  EXPECT_EQ(fake_.aborts, 1) << "so that peers learn";
  const absl::Status later = comm_->barrier({}).status();
  EXPECT_EQ(error_reason(later), Reason::kGroupBroken);
  EXPECT_THAT(error_info(later)->cause, HasSubstr("line cut"));
  EXPECT_EQ(fake_.submits, 1) << "a broken group asks its backend nothing";
}

// All ranks name the rank that failed first.
TEST_F(CommunicatorTest, AnotherRanksEarlierFailureIsTheCause) {
  start();
  FirstFailure elsewhere(store_, "failure");
  ASSERT_TRUE(elsewhere
                  .agree({.reason = Reason::kPeerLost,
                          .what = "line cut",
                          .op = "all_reduce",
                          .my_rank = 2,
                          .group_size = 4,
                          .ranks = {3}})
                  .ok());
  fake_.submit = [](const dw_op&, dw_work*, dw_error* error) {
    set_error(error, DW_REASON_PEER_LOST, 2, "closed by rank 2");
    return DW_UNAVAILABLE;
  };
  const absl::Status status = call().status();
  EXPECT_THAT(error_info(status)->ranks, ElementsAre(3)) << status;
  EXPECT_THAT(error_info(status)->cause, HasSubstr("rank 2 failed first"));
}

// A thread of this rank has aborted the group; by the time that it comes to the
// backend, a peer has heard of it and has cut its connections.
TEST_F(CommunicatorTest, AnEarlierFailureOfThisRankIsTheCauseToo) {
  start();
  ASSERT_TRUE(FirstFailure(store_, "failure")
                  .agree({.reason = Reason::kAborted,
                          .what = "the group was aborted: enough",
                          .my_rank = 0,
                          .group_size = 4})
                  .ok());
  fake_.submit = [](const dw_op&, dw_work*, dw_error* error) {
    set_error(error, DW_REASON_PEER_LOST, 1, "closed by rank 1");
    return DW_UNAVAILABLE;
  };
  const absl::Status status = call().status();
  EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("enough"));
  EXPECT_THAT(error_info(status)->ranks, ::testing::IsEmpty());
  EXPECT_EQ(error_info(status)->op, "all_reduce");
}

TEST_F(CommunicatorTest, APeerThatGaveUpIsNamedAsSuch) {
  start();
  ASSERT_TRUE(
      FirstFailure(store_, "failure")
          .agree({.reason = Reason::kTimedOut, .my_rank = 1, .group_size = 4})
          .ok());
  fake_.submit = [](const dw_op&, dw_work*, dw_error* error) {
    set_error(error, DW_REASON_PEER_LOST, 1, "closed by rank 1");
    return DW_UNAVAILABLE;
  };
  const absl::Status status = call().status();
  EXPECT_EQ(error_reason(status), Reason::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 gave up"));
}

TEST_F(CommunicatorTest, PendingWorkCompletesOnce) {
  start();
  dw_work* pending = nullptr;
  fake_.submit = [&](const dw_op& op, dw_work* work, dw_error*) {
    EXPECT_EQ(op.flags & DW_FLAG_CALLER_WAITS, 0u);
    EXPECT_GT(op.deadline_ns, Deadline::now_ns());
    pending = work;
    return DW_OK;
  };
  const absl::StatusOr<Work> work = call({.async = true});
  ASSERT_TRUE(work.ok());
  EXPECT_EQ(work->state(), WorkState::kRunning);
  EXPECT_FALSE(work->test());
  std::thread completer([&] { fake_.complete(pending, DW_OK); });
  EXPECT_TRUE(work->wait().ok());
  completer.join();
  EXPECT_EQ(work->state(), WorkState::kDone);
}

TEST_F(CommunicatorTest, WorkFinishedInsideSubmitIsDone) {
  start();
  const absl::StatusOr<Work> work = call({.async = true});
  ASSERT_TRUE(work.ok());
  EXPECT_EQ(work->state(), WorkState::kDone);
  EXPECT_TRUE(work->wait().ok());
}

TEST_F(CommunicatorTest, PendingWorkThatFailsSaysSoEveryTime) {
  start();
  fake_.submit = [&](const dw_op&, dw_work* work, dw_error*) {
    dw_error error{};
    set_error(&error, DW_REASON_PEER_LOST, 2, "fake: gone");
    fake_.complete(work, DW_UNAVAILABLE, &error);
    return DW_OK;
  };
  const absl::StatusOr<Work> work = call({.async = true});
  ASSERT_TRUE(work.ok());
  EXPECT_EQ(work->state(), WorkState::kFailed);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(error_reason(work->wait()), Reason::kPeerLost);
}

// A backend that lets go of the buffers after the abort, and one that does not.
TEST_F(CommunicatorTest, LateWorkIsAbortedThenFailed) {
  start();
  dw_work* pending = nullptr;
  fake_.submit = [&](const dw_op&, dw_work* work, dw_error*) {
    pending = work;
    return DW_OK;
  };
  const absl::StatusOr<Work> work =
      call({.async = true, .timeout = absl::Milliseconds(20)});
  ASSERT_TRUE(work.ok());
  const absl::Status status = work->wait();
  EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
  EXPECT_EQ(work->state(), WorkState::kTimedOut);
  EXPECT_GE(fake_.aborts, 1);
  EXPECT_THAT(std::string(status.message()), HasSubstr("buffers are in use"));
  dw_error error{};
  fake_.complete(pending, DW_ABORTED, &error);  // at last
  EXPECT_EQ(work->wait().message(), status.message()) << "first end wins";
}

// `complete` may be called from any thread, that of the abort included.
TEST_F(CommunicatorTest, AnAbortMayCompleteWorkInsideItself) {
  for (const bool late : {true, false}) {
    store_ = Store::in_memory();
    start();
    std::atomic<dw_work*> pending = nullptr;
    std::atomic<bool> aborted = false;
    fake_.submit = [&](const dw_op&, dw_work* work, dw_error*) {
      pending = work;
      return DW_OK;
    };
    fake_.abort = [&] {
      // The deadline may pass before there was a turn to submit.
      while (pending == nullptr) std::this_thread::yield();
      dw_error error{};
      set_error(&error, DW_REASON_ABORTED, -1, "fake: aborted");
      fake_.complete(pending, DW_ABORTED, &error);
      aborted = true;
    };
    const int aborts = fake_.aborts;
    {
      // Nobody holds the late one: its cell ends inside its own expiry.
      const absl::StatusOr<Work> work =
          call({.async = true,
                .timeout = late ? absl::Milliseconds(5) : absl::Seconds(60)});
      ASSERT_TRUE(work.ok());
      if (!late) {
        EXPECT_FALSE(comm_->drain(Deadline::after(absl::ZeroDuration())));
        EXPECT_EQ(work->state(), WorkState::kAborted);
      }
    }
    while (!aborted) std::this_thread::yield();
    comm_.reset();
    EXPECT_EQ(fake_.aborts, aborts + 1) << "once is enough";
  }
  EXPECT_EQ(fake_.destroys, 2);
}

TEST_F(CommunicatorTest, ClosingWaitsForWorkInFlight) {
  start();
  dw_work* pending = nullptr;
  fake_.submit = [&](const dw_op&, dw_work* work, dw_error*) {
    pending = work;
    return DW_OK;
  };
  const absl::StatusOr<Work> work = call({.async = true});
  ASSERT_TRUE(work.ok());
  std::thread completer([&] { fake_.complete(pending, DW_OK); });
  EXPECT_TRUE(comm_->drain(Deadline::after(absl::Seconds(30))));
  completer.join();
  EXPECT_TRUE(comm_->destroy(Deadline::never()).ok());
  EXPECT_EQ(fake_.aborts, 0);
  EXPECT_EQ(fake_.destroys, 1);
  EXPECT_EQ(error_reason(call().status()), Reason::kGroupClosed);
  EXPECT_TRUE(comm_->destroy(Deadline::never()).ok());
  EXPECT_EQ(fake_.destroys, 1);
}

// Memory that a backend still uses is not freed under it.
TEST_F(CommunicatorTest, ABackendThatNeverLetsGoIsNotDestroyed) {
  start();
  dw_work* pending = nullptr;
  fake_.submit = [&](const dw_op&, dw_work* work, dw_error*) {
    pending = work;
    return DW_OK;
  };
  const absl::StatusOr<Work> work = call({.async = true});
  ASSERT_TRUE(work.ok());
  EXPECT_FALSE(comm_->drain(Deadline::after(absl::Milliseconds(10))));
  EXPECT_EQ(fake_.aborts, 1);
  EXPECT_TRUE(comm_->destroy(Deadline::never()).ok());
  EXPECT_EQ(fake_.destroys, 0);
  dw_error error{};
  fake_.complete(pending, DW_ABORTED, &error);
  EXPECT_EQ(work->state(), WorkState::kAborted);
  backend_->api().comm_destroy(built_, 0, nullptr);  // here it is let go
}

class WatchedCommunicatorTest : public CommunicatorTest {
 protected:
  WatchedCommunicatorTest() : CommunicatorTest(DW_BACKEND_HOST_WATCHES) {}
};

// A blocked call of a backend without time-outs is ended by the watchdog.
TEST_F(WatchedCommunicatorTest, ABlockedCallIsEndedByAnAbort) {
  start(absl::Milliseconds(30));
  fake_.submit = [&](const dw_op& op, dw_work*, dw_error* error) {
    EXPECT_GT(op.deadline_ns, 0);
    while (fake_.aborts == 0) std::this_thread::yield();
    set_error(error, DW_REASON_ABORTED, -1, "fake: aborted");
    return DW_ABORTED;
  };
  const absl::Status status = call().status();
  EXPECT_EQ(error_reason(status), Reason::kTimedOut) << status;
  EXPECT_EQ(error_info(status)->deadline, absl::Milliseconds(30));
  EXPECT_GE(error_info(status)->elapsed, absl::Milliseconds(30));
}

// A backend that registers memory hears of every call, whichever way it goes,
// whether both buffers are its memory.
TEST_F(CommunicatorTest, SaysOfTheBackendsMemoryThatItIs) {
  constexpr Device kGpu{.type = DW_DEVICE_CUDA};
  fake_.add_flags(DW_BACKEND_STREAMS | DW_BACKEND_SUBMIT_BESIDE);
  std::vector<bool> said;
  const auto take = [&](const dw_op& op) {
    said.push_back((op.flags & DW_FLAG_REGISTERED) != 0);
    return DW_DONE;
  };
  fake_.submit = [&](const dw_op& op, dw_work*, dw_error*) { return take(op); };
  fake_.submit_group = [&](const dw_group_item* items, uint64_t, dw_error*) {
    return take(*items->op);
  };
  const auto recording = SessionRecording::make({}, {"job", "host", 0, 4});
  int native = 0;
  const Stream stream{kGpu, &native};
  for (const bool traced : {false, true}) {
    if (traced)
      start(absl::Seconds(60), kGpu, nullptr, {recording, 0});
    else
      start(absl::Seconds(60), kGpu);
    backend_->allocations().add(x_.data(), 8 * sizeof(float));
    // From its second call on a thread goes the short way.
    EXPECT_TRUE(comm_->barrier({}).ok());
    said.clear();
    const TensorView in(x_.data(), 2, DType::kF32, kGpu);
    OnStream on_stream(*comm_, stream);
    for (Communicator* const by : {static_cast<Communicator*>(comm_.get()),
                                   static_cast<Communicator*>(&on_stream)})
      for (const bool async : {false, true})
        for (const TensorView& out : {view(x_), view(y_)})
          EXPECT_TRUE(by->all_gather(out, in, {.async = async}).ok());
    for (const TensorView& out : {view(x_), view(y_)}) {
      BatchRecord batch;
      EXPECT_TRUE(batch.on(*comm_).all_gather(out, in).ok());
      EXPECT_TRUE(batch.submit().ok());
    }
    EXPECT_THAT(said, ElementsAre(true, false, true, false, true, false, true,
                                  false, true, false));
    comm_.reset();
  }
}

// A backend that ignores an abort, and completes when all other users have
// gone.
TEST_F(CommunicatorTest, ABackendThatDoesNotLetGoMayCompleteLate) {
  dw_work* pending = nullptr;
  fake_.submit = [&](const dw_op&, dw_work* work, dw_error*) {
    pending = work;
    return int32_t{DW_OK};
  };
  start(absl::Seconds(60));
  const absl::StatusOr<Work> work = call({.async = true});
  ASSERT_TRUE(work.ok()) << work.status();
  comm_.reset();
  watchdog_.reset();
  EXPECT_EQ(fake_.aborts, 1);
  EXPECT_EQ(fake_.destroys, 0);
  fake_.complete(pending, DW_OK);
  EXPECT_TRUE(work->wait().ok());
}

}  // namespace
}  // namespace distwrap::comm
