// Communicators that are made of others: of what is left after a failure, and
// by splits.
#include "fake_ranks.h"
#include "nccl/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace distwrap::nccl_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

constexpr int kRevokes = 22902;  // a version that does

void fail(FakeRank& rank) {
  dw_error why = {};
  why.code = DW_UNAVAILABLE;
  why.reason = DW_REASON_PEER_LOST;
  why.peer = 1;
  std::snprintf(why.text, sizeof why.text, "rank 1 is lost");
  EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
}

// Ranks 0 and 2 of three are left, as ranks 0 and 1.
struct Left {
  conformance::Meeting meeting{2};
  std::vector<int32_t> ranks = {0, 2};

  int32_t build(FakeRank& rank, dw_comm** made, int rounds = 1000) {
    dw_setup_info info = {};
    info.rank = rank.rank == 0 ? 0 : 1;
    info.size = 2;
    info.uid = 8;
    info.parent = rank.comm;
    info.parent_rank = ranks.data();
    return rank.build(info, meeting, made, rounds);
  }
};

// A sum over the two.
void use(FakeRank& rank, dw_comm* made) {
  const DeviceInts x(rank, {rank.rank + 1});
  dw_op op = rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1);
  op.flags |= DW_FLAG_CALLER_WAITS;
  EXPECT_EQ(nccl().submit(made, &op, nullptr, &rank.error), DW_DONE)
      << rank.error.text;
  EXPECT_EQ(x.values(), Ints{4});
}

void end(FakeRank& rank, dw_comm* comm) {
  EXPECT_EQ(
      nccl().comm_destroy(comm, conformance::now_ns() + 5'000'000'000, nullptr),
      DW_OK);
  static_cast<void>(rank);
}

class NcclChildren : public testing::TestWithParam<int> {};

// Where NCCL revokes, the ranks that are left shrink the communicator; the
// others build a new one from ids.
TEST_P(NcclChildren, AreMadeOfWhatIsLeft) {
  fakes::gpu::take_notes();
  Left left;
  run_ranks({.size = 3, .version = GetParam()}, [&](FakeRank& rank) {
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    fail(rank);
    if (rank.rank == 1) return;
    dw_comm* made = nullptr;
    ASSERT_EQ(left.build(rank, &made), DW_OK) << rank.error.text;
    use(rank, made);
    end(rank, made);
  });
  EXPECT_THAT(fakes::gpu::take_notes(),
              Contains("ncclCommShrink").Times(GetParam() >= kRevokes ? 2 : 0));
}

INSTANTIATE_TEST_SUITE_P(Versions, NcclChildren, testing::ValuesIn(versions()),
                         [](const auto& version) {
                           return std::to_string(version.param);
                         });

// NCCL keeps the order of ranks, and a rank whose communicator has not failed
// has nothing that is left: then all build from ids, one round later.
TEST(NcclShrink, OnlyIfAllCan) {
  fakes::gpu::take_notes();
  Left left, turned;
  turned.ranks = {2, 0};
  run_ranks({.size = 3}, [&](FakeRank& rank) {
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    if (rank.rank != 2) fail(rank);
    if (rank.rank == 1) return;
    dw_comm* made = nullptr;
    ASSERT_EQ(left.build(rank, &made), DW_OK) << rank.error.text;
    use(rank, made);
    end(rank, made);
    if (rank.rank == 2) fail(rank);
    ASSERT_EQ(turned.build(rank, &made), DW_OK) << rank.error.text;
    use(rank, made);
    end(rank, made);
  });
  EXPECT_THAT(fakes::gpu::take_notes(), Not(Contains("ncclCommShrink")));
}

// A communicator can be shrunk more than once, one after the other.
TEST(NcclShrink, Again) {
  fakes::gpu::take_notes();
  Left left;
  run_ranks({.size = 3}, [&](FakeRank& rank) {
    fail(rank);
    if (rank.rank == 1) return;
    for (int i = 0; i < 3; ++i) {
      dw_comm* made = nullptr;
      ASSERT_EQ(left.build(rank, &made), DW_OK) << rank.error.text;
      use(rank, made);
      end(rank, made);
    }
  });
  EXPECT_THAT(fakes::gpu::take_notes(), Contains("ncclCommShrink").Times(6));
}

// A rank that gives up in the middle ends what NCCL has begun; the parent of
// the other rank is ended while NCCL makes a communicator of it.
TEST(NcclShrink, IsGivenUp) {
  Left left;
  run_ranks({.size = 3}, [&](FakeRank& rank) {
    fail(rank);
    if (rank.rank == 1) return;
    dw_comm* made = nullptr;
    // One round: NCCL has been asked, and not yet answered.
    EXPECT_EQ(left.build(rank, &made, 1), DW_CANCELLED);
    const auto begun = Clock::now();
    rank.close();
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
  });
}

// NCCL goes on with what it does not abort, and writes to where the new
// communicator was to be put. AddressSanitizer sees it when nothing is there.
TEST(NcclShrink, IsGivenUpAndNotAborted) {
  Left left;
  conformance::Meeting two(2);
  run_ranks({.size = 3}, [&](FakeRank& rank) {
    fail(rank);
    if (rank.rank == 1) return rank.close();
    fakes::gpu::fail_call(fakes::gpu::kEach, 3, fakes::gpu::Calls::kAbort);
    dw_comm* made = nullptr;
    EXPECT_EQ(left.build(rank, &made, 1), DW_CANCELLED);
    EXPECT_EQ(
        nccl().comm_destroy(std::exchange(rank.comm, nullptr),
                            conformance::now_ns() + 5'000'000'000, &rank.error),
        DW_INTERNAL);
    EXPECT_THAT(rank.error.text, HasSubstr("ncclCommAbort: a fake NCCL"));
    rank.close();
    two.swap(rank.rank == 0 ? 0 : 1, {});
    fakes::gpu::fail_call(0, 0);
  });
  expect_nothing_left();
}

TEST(NcclShrink, AParentThatIsEndedMeanwhile) {
  Left left;
  run_ranks({.size = 3}, [&](FakeRank& rank) {
    fail(rank);
    if (rank.rank == 1) return;
    dw_setup_info info = {};
    info.struct_size = sizeof info;
    info.flags = DW_SETUP_COMMUNICATOR;
    info.rank = rank.rank == 0 ? 0 : 1;
    info.size = 2;
    info.uid = 8;
    info.epoch = 1;
    info.parent = rank.comm;
    info.parent_rank = left.ranks.data();
    dw_setup* setup = nullptr;
    dw_blob blob = {};
    ASSERT_EQ(
        nccl().setup_begin(rank.backend, &info, &setup, &blob, &rank.error),
        DW_OK);
    const std::string mine(static_cast<const char*>(blob.data), blob.size);
    const std::vector<std::string> all = left.meeting.swap(info.rank, mine);
    end(rank, rank.comm);
    rank.comm = nullptr;
    std::vector<dw_blob> blobs;
    for (const std::string& one : all)
      blobs.push_back({one.data(), one.size(), nullptr, 0});
    dw_setup_result result = {};
    EXPECT_EQ(nccl().setup_step(setup, blobs.data(), blobs.size(), &blob,
                                &result, &rank.error),
              DW_ABORTED);
    EXPECT_THAT(rank.error.text, HasSubstr("was ended"));
  });
}

// The parent is ended while the call does not return, so its end is late.
TEST(NcclShrink, ThatDoesNotReturnHoldsUpNoEnd) {
  run_ranks({.size = 2}, [](FakeRank& rank) {
    fail(rank);
    if (rank.rank == 1) return;
    conformance::Meeting alone(1);
    const int32_t own = 0;
    dw_setup_info info = {};
    info.size = 1;
    info.uid = 8;
    info.parent = rank.comm;
    info.parent_rank = &own;
    dw_comm* made = nullptr;
    int32_t built = DW_OK;
    fakes::gpu::hang_call(1);
    std::thread setup([&] { built = rank.build(info, alone, &made); });
    while (!fakes::gpu::call_hangs()) std::this_thread::yield();
    dw_error error = {};
    EXPECT_EQ(nccl().comm_destroy(std::exchange(rank.comm, nullptr),
                                  conformance::now_ns() + 30'000'000, &error),
              DW_DEADLINE_EXCEEDED);
    EXPECT_THAT(error.text, HasSubstr("has not ended in time"));
    fakes::gpu::let_go();
    setup.join();
    // The setup may be quicker than the parent's end.
    if (built == DW_OK) return end(rank, made);
    EXPECT_EQ(built, DW_ABORTED);
    EXPECT_THAT(rank.error.text, HasSubstr("was ended"));
  });
  expect_nothing_left();
}

// All ranks of four make two groups: 0 and 2, 3 and 1, in this order.
struct Halves {
  conformance::Meeting even{2}, odd{2};

  int32_t build(FakeRank& rank, dw_comm** made, uint64_t uid,
                const char* split = "1", int rounds = 1000) {
    const bool is_even = rank.rank % 2 == 0;
    const int32_t ranks[] = {is_even ? 0 : 3, is_even ? 2 : 1};
    const dw_hint hint = {{"split", 5}, {split, 1}};
    dw_setup_info info = {};
    info.flags = DW_SETUP_ALL_OF_PARENT;
    info.rank = rank.rank == ranks[0] ? 0 : 1;
    info.size = 2;
    info.uid = uid;
    info.parent = rank.comm;
    info.parent_rank = ranks;
    info.hints = &hint;
    info.n_hints = 1;
    return rank.build(info, is_even ? even : odd, made, rounds);
  }
};

// Each rank gathers the ranks of its half.
void use_half(FakeRank& rank, dw_comm* made) {
  const DeviceInts x(rank, {rank.rank}), y(rank, {-1, -1});
  dw_op op = rank.op(DW_OP_ALL_GATHER, x.data(), y.data(), 1);
  op.out.count = 2;
  op.flags |= DW_FLAG_CALLER_WAITS;
  EXPECT_EQ(nccl().submit(made, &op, nullptr, &rank.error), DW_DONE)
      << rank.error.text;
  EXPECT_EQ(y.values(), (rank.rank % 2 == 0 ? Ints{0, 2} : Ints{3, 1}));
}

TEST_P(NcclChildren, AreSplitWhereAHintAllowsIt) {
  fakes::gpu::take_notes();
  Halves halves;
  run_ranks({.size = 4, .version = GetParam()}, [&](FakeRank& rank) {
    const DeviceInts x(rank, {1});
    for (uint64_t i = 0; i < 2; ++i) {
      dw_comm* made = nullptr;
      ASSERT_EQ(halves.build(rank, &made, 10 + i), DW_OK) << rank.error.text;
      use_half(rank, made);
      // The parent is as it was.
      EXPECT_EQ(rank.call(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1)),
                DW_DONE)
          << rank.error.text;
      end(rank, made);
    }
    EXPECT_EQ(x.values(), Ints{16});
  });
  EXPECT_THAT(fakes::gpu::take_notes(), Contains("ncclCommSplit").Times(8));
  run_ranks({.size = 4, .version = GetParam()}, [&](FakeRank& rank) {
    dw_comm* made = nullptr;
    ASSERT_EQ(halves.build(rank, &made, 12, "0"), DW_OK) << rank.error.text;
    use_half(rank, made);
    end(rank, made);
  });
  EXPECT_THAT(fakes::gpu::take_notes(), Not(Contains("ncclCommSplit")));
}

bool is_splitting(const FakeRank& rank) {
  nccl_backend::NcclPart& part = *nccl_backend::of(rank.comm)->part;
  const std::lock_guard<nccl_backend::CallLock> inside(part.inside);
  return part.splitting;
}

// NCCL wants nothing in flight on the parent, and nobody else there. The fake
// says when that is not so.
TEST(NcclSplit, WaitsForTheParentAndTheParentForIt) {
  Halves halves;
  fakes::gpu::Moment gates[4];
  run_ranks({.size = 4}, [&](FakeRank& rank) {
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1}), y(rank, {1});
    fakes::gpu::Moment& gate = gates[rank.rank];
    stream.put([&] { gate.wait(); });
    dw_work before;
    ASSERT_EQ(
        rank.submit(
            rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream),
            &before),
        DW_OK);
    std::thread opens([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate.happen();
    });
    // Another thread calls on the parent once that is being split, or was.
    std::atomic<bool> split = false;
    std::thread calls([&] {
      while (!split && !is_splitting(rank)) std::this_thread::yield();
      dw_op op = rank.op(DW_OP_ALL_REDUCE, y.data(), y.data(), 1);
      op.flags |= DW_FLAG_CALLER_WAITS;
      dw_error error = {};
      EXPECT_EQ(nccl().submit(rank.comm, &op, nullptr, &error), DW_DONE)
          << error.text;
    });
    dw_comm* made = nullptr;
    EXPECT_EQ(halves.build(rank, &made, 10), DW_OK) << rank.error.text;
    split = true;
    opens.join();
    calls.join();
    ASSERT_NE(made, nullptr);
    use_half(rank, made);
    EXPECT_TRUE(before.wait(std::chrono::seconds(10)));
    EXPECT_EQ(x.values(), Ints{4});
    EXPECT_EQ(y.values(), Ints{4});
    end(rank, made);
  });
}

// A split that is given up costs the parent, and says so.
TEST(NcclSplit, ThatIsGivenUpEndsTheParent) {
  Halves halves;
  run_ranks({.size = 4}, [&](FakeRank& rank) {
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    if (rank.rank == 3) return;  // does not come, so NCCL cannot split
    conformance::Meeting alone(1);
    const int32_t own = rank.rank;
    const dw_hint hint = {{"split", 5}, {"1", 1}};
    dw_setup_info info = {};
    info.flags = DW_SETUP_ALL_OF_PARENT;
    info.size = 1;
    info.uid = 20;
    info.parent = rank.comm;
    info.parent_rank = &own;
    info.hints = &hint;
    info.n_hints = 1;
    dw_comm* made = nullptr;
    EXPECT_EQ(rank.build(info, alone, &made, 3), DW_CANCELLED);
    EXPECT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)),
              DW_ABORTED);
    EXPECT_THAT(rank.error.text, HasSubstr("was given up"));
  });
}

bool is_aborted(const FakeRank& rank) {
  nccl_backend::NcclPart& part = *nccl_backend::of(rank.comm)->part;
  const std::lock_guard<nccl_backend::CallLock> inside(part.inside);
  return part.is_gone();
}

// Where NCCL cannot revoke, it aborts, as versions before do.
TEST(NcclRevoke, ThatFailsBecomesAnAbort) {
  fakes::gpu::take_notes();
  fakes::gpu::fail_call(fakes::gpu::kEach, 3, fakes::gpu::Calls::kRevoke);
  Left left;
  run_ranks({.size = 3}, [&](FakeRank& rank) {
    fail(rank);
    while (!is_aborted(rank)) std::this_thread::yield();
    if (rank.rank == 1) return;
    dw_comm* made = nullptr;
    ASSERT_EQ(left.build(rank, &made), DW_OK) << rank.error.text;
    use(rank, made);
    end(rank, made);
  });
  fakes::gpu::fail_call(0, 0);
  EXPECT_THAT(fakes::gpu::take_notes(), Not(Contains("ncclCommShrink")));
}

}  // namespace
}  // namespace distwrap::nccl_test
