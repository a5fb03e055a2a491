// Communicators that are made of others: of what is left after a failure.
#include "fake_ranks.h"
#include "nccl/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

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

bool is_aborted(const FakeRank& rank) {
  nccl_backend::NcclPart& part = *nccl_backend::of(rank.comm)->part;
  const std::lock_guard<std::mutex> inside(part.inside);
  return part.is_gone();
}

// Where NCCL cannot revoke, it aborts, as versions before do.
TEST(NcclRevoke, ThatFailsBecomesAnAbort) {
  fakes::gpu::take_notes();
  fakes::gpu::fail_revocations(3);
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
  fakes::gpu::fail_revocations(0);
  EXPECT_THAT(fakes::gpu::take_notes(), Not(Contains("ncclCommShrink")));
}

}  // namespace
}  // namespace distwrap::nccl_test
