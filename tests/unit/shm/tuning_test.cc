// From which sizes on operations go another way: what the hint may say, that
// all ranks go by rank 0's, and that they go that way.
#include "tuning.h"

#include "backend.h"
#include "host.h"
#include "meet.h"
#include "thread_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace shm_backend {
namespace {

using ::testing::HasSubstr;

dw_str text_of(const std::string& text) { return {text.data(), text.size()}; }

TEST(Tuning, NamedValuesReplaceTheDefaults) {
  Tuning tuning;
  const Tuning before;
  dw_error error = {};
  EXPECT_EQ(read_tuning({nullptr, 0}, &tuning, &error), DW_OK);
  EXPECT_EQ(read_tuning(text_of("sliced_two=1024,direct_tried=1073741824"),
                        &tuning, &error),
            DW_OK)
      << error.text;
  EXPECT_EQ(tuning.sliced_two, 1024u);
  EXPECT_EQ(tuning.direct_tried, 1u << 30);
  EXPECT_EQ(tuning.sliced_more, before.sliced_more);
  EXPECT_EQ(tuning.straight_tried, before.straight_tried);
  EXPECT_TRUE(before.is_sane() && tuning.is_sane());
}

TEST(Tuning, WhatIsWrongIsNamed) {
  const struct {
    const char *text, *told;
  } bad[] = {
      {"sliced_too=4096", "'sliced_too' is no threshold"},
      {"sliced_two=2048,=4096", "'' is no threshold"},
      {"sliced_two", "'sliced_two' is not name=bytes"},
      {"sliced_two=2048,,", "'' is not name=bytes"},
      {"sliced_two=", "'sliced_two=' does not give a whole number"},
      {"sliced_two=4K", "'sliced_two=4K' does not give a whole number"},
      {"sliced_two=-1", "'sliced_two=-1' does not give a whole number"},
      {"sliced_two= 4096", "does not give a whole number"},
      {"sliced_two=0", "'sliced_two=0' is not from 1024 to 1073741824"},
      {"sliced_two=1023", "is not from 1024"},
      {"sliced_two=1073741825", "is not from 1024"},
      {"sliced_two=99999999999999999999", "is not from 1024"},
  };
  for (const auto& one : bad) {
    Tuning tuning;
    dw_error error = {};
    EXPECT_EQ(read_tuning(text_of("direct_tried=2048," + std::string(one.text)),
                          &tuning, &error),
              DW_INVALID_ARGUMENT)
        << one.text;
    EXPECT_EQ(error.reason, DW_REASON_INVALID_ARGUMENT);
    EXPECT_THAT(error.text, HasSubstr(one.told));
    EXPECT_EQ(tuning.direct_tried, Tuning().direct_tried)
        << "half of it is read";
  }
}

TEST(Tuning, AHeaderWithSizesThatCannotBeIsRefused) {
  Header header = {kSegmentMagic, 7, 5, 1, 2, 0, kSmallStage + (1 << 20), 0};
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1023}, ~uint64_t{0}}) {
    Arena first, second;
    dw_error error = {};
    header.tuning.straight_tried = bytes;
    ASSERT_EQ(first.create(header, &error), DW_OK) << error.text;
    EXPECT_EQ(second.adopt(Descriptor(dup(first.fd())), header, &error),
              DW_FAILED_PRECONDITION)
        << bytes;
    EXPECT_EQ(error.reason, DW_REASON_REFUSED);
  }
}

const dw_backend_api& api() { return distwrap::shm_test::shm(); }

int32_t open_with(const std::string& tuning, dw_backend** backend,
                  dw_error* error) {
  const dw_hint hint = {{"tuning", 6}, text_of(tuning)};
  dw_open_info info = {};
  info.struct_size = sizeof info;
  info.device_type = DW_DEVICE_CPU;
  info.hints = &hint;
  info.n_hints = 1;
  return api().open(&distwrap::conformance::host_table(), &info, backend,
                    error);
}

// Two ranks in one thread: nothing of a setup waits.
class TwoRanks : public testing::Test {
 protected:
  void open(const std::string& first, const std::string& second) {
    dw_error error = {};
    ASSERT_EQ(open_with(first, &backends_[0], &error), DW_OK) << error.text;
    ASSERT_EQ(open_with(second, &backends_[1], &error), DW_OK) << error.text;
    make(&world_, nullptr);
  }
  ~TwoRanks() override {
    for (const Pair* const pair : {&half_, &world_})
      for (dw_comm* const comm : pair->comms)
        if (comm != nullptr) api().comm_destroy(comm, 0, nullptr);
    for (dw_backend* const backend : backends_)
      if (backend != nullptr) api().close(backend);
  }

  struct Pair {
    dw_comm* comms[2] = {};
    Comm* of(int rank) const { return shm_backend::of(comms[rank]); }
  };

  void make(Pair* pair, const Pair* parent) {
    static const int32_t ranks[] = {0, 1};
    dw_setup* setups[2] = {};
    dw_blob out[2] = {};
    dw_error error = {};
    int32_t code = DW_OK;
    for (const int r : {0, 1}) {
      dw_setup_info info = {};
      info.struct_size = sizeof info;
      info.flags = DW_SETUP_COMMUNICATOR;
      info.rank = r;
      info.size = 2;
      info.uid = parent == nullptr ? 7 : 8;
      info.parent = parent == nullptr ? nullptr : parent->comms[r];
      info.parent_rank = parent == nullptr ? nullptr : ranks;
      ASSERT_EQ(
          api().setup_begin(backends_[r], &info, &setups[r], &out[r], &error),
          DW_OK)
          << error.text;
    }
    while (code == DW_OK) {
      std::string texts[2];
      dw_blob in[2];
      for (const int r : {0, 1}) {
        texts[r].assign(static_cast<const char*>(out[r].data), out[r].size);
        in[r] = {texts[r].data(), texts[r].size(), nullptr, 0};
      }
      for (const int r : {0, 1}) {
        dw_setup_result result = {};
        code = api().setup_step(setups[r], in, 2, &out[r], &result, &error);
        ASSERT_TRUE(code == DW_OK || code == DW_DONE) << error.text;
        pair->comms[r] = result.comm;
      }
    }
  }

  // Runs an operation on that many bytes on the two ranks and checks all bytes.
  void call(const Pair& pair, uint16_t kind, int64_t bytes) {
    ++seq_;
    const bool reduces = kind == DW_OP_ALL_REDUCE;
    const auto one = [&](int rank) {
      std::vector<unsigned char> in(static_cast<size_t>(bytes), 3), out = in;
      dw_op op = {};
      op.struct_size = sizeof op;
      op.kind = kind;
      op.flags = DW_FLAG_CALLER_WAITS;
      op.reduce = reduces ? DW_REDUCE_SUM : 0;
      op.peer = reduces ? -1 : 0;
      op.seq = seq_;
      op.timeout_ns = 60'000'000'000;
      std::fill(out.begin(), out.end(), 0xee);
      op.out.data = out.data();
      op.out.count = bytes;
      op.out.dtype = {1, 8, 1};
      if (reduces || rank == 0) {
        op.in = op.out;
        op.in.data = in.data();
      }
      dw_error error = {};
      EXPECT_EQ(api().submit(pair.comms[rank], &op, nullptr, &error), DW_DONE)
          << error.text;
      for (const unsigned char byte : out)
        ASSERT_EQ(byte, reduces ? 6 : 3) << "rank " << rank;
    };
    std::thread other(one, 1);
    one(0);
    other.join();
  }

  // Gathers the pieces of two ranks at rank 0; only a pair knows their sizes.
  void gather_counted(int64_t bytes) {
    ++seq_;
    const auto one = [&](int rank) {
      const int64_t counts[] = {bytes, bytes};
      std::vector<unsigned char> in(static_cast<size_t>(bytes), 3);
      std::vector<unsigned char> out(rank == 0 ? 2 * in.size() : 0);
      dw_op op = {};
      op.struct_size = sizeof op;
      op.kind = DW_OP_GATHER;
      op.flags = DW_FLAG_CALLER_WAITS | DW_FLAG_PER_RANK;
      op.seq = seq_;
      op.timeout_ns = 60'000'000'000;
      op.in.data = in.data();
      op.in.count = bytes;
      op.in.dtype = {1, 8, 1};
      if (rank == 0) {
        op.out = op.in;
        op.out.data = out.data();
        op.out.count = 2 * bytes;
        op.out.counts = counts;
      }
      dw_error error = {};
      EXPECT_EQ(api().submit(world_.comms[rank], &op, nullptr, &error), DW_DONE)
          << error.text;
      for (const unsigned char byte : out) ASSERT_EQ(byte, 3);
    };
    std::thread other(one, 1);
    one(0);
    other.join();
  }

  // Whether the last operation of that size went from buffer to buffer.
  static bool went_straight(const Comm& comm, int64_t bytes) {
    const int other = 1 - comm.rank;
    if (comm.ways.empty()) return false;
    const PeerTransfers& way = comm.ways[static_cast<size_t>(other)];
    return way.take.piece.bytes == static_cast<size_t>(bytes);
  }
  // The last round that it showed anything in.
  static uint64_t last_round(const Comm& comm) {
    uint64_t last = 0;
    const uint64_t operation = (comm.ticket >> kRoundBits) - 1;
    for (const uint64_t posted : comm.posted)
      if (posted >> kRoundBits == operation)
        last = std::max(last, posted & kLastRound);
    return last;
  }

  dw_backend* backends_[2] = {};
  Pair world_, half_;
  uint64_t seq_ = 0;
};

TEST_F(TwoRanks, AHintThatIsWrongOpensNothing) {
  dw_error error = {};
  EXPECT_EQ(open_with("nothing=5", &backends_[0], &error), DW_INVALID_ARGUMENT);
  EXPECT_THAT(error.text, HasSubstr("'nothing' is no threshold"));
  EXPECT_EQ(backends_[0], nullptr);
}

TEST_F(TwoRanks, AllGoByTheFirstsAndSoDoTheirGroups) {
  open("sliced_two=2048,straight_tried=4096", "sliced_two=1073741824");
  ASSERT_FALSE(HasFatalFailure());
  make(&half_, &world_);
  ASSERT_FALSE(HasFatalFailure());
  for (const Pair* const pair : {&world_, &half_})
    for (const int rank : {0, 1}) {
      EXPECT_EQ(pair->of(rank)->tuning.sliced_two, 2048u) << rank;
      EXPECT_EQ(pair->of(rank)->tuning.straight_tried, 4096u) << rank;
      EXPECT_EQ(pair->of(rank)->tuning.direct_tried, Tuning().direct_tried);
    }
  for (const int64_t bytes : {3000, 5000, 100'000})
    for (const Pair* const pair : {&world_, &half_}) {
      call(*pair, DW_OP_ALL_REDUCE, bytes);
      call(*pair, DW_OP_BROADCAST, bytes);
    }
}

// A value that is written later has no effect.
TEST_F(TwoRanks, TheHeaderIsReadOnce) {
  open("straight_tried=4096", "");
  ASSERT_FALSE(HasFatalFailure());
  const int fd = world_.of(0)->room.arena()->fd();
  Header header;
  ASSERT_EQ(pread(fd, &header, sizeof header, 0),
            static_cast<ssize_t>(sizeof header));
  EXPECT_EQ(header.tuning.straight_tried, 4096u);
  header.tuning.straight_tried = ~uint64_t{0};
  header.tuning.sliced_two = 0;
  ASSERT_EQ(pwrite(fd, &header, sizeof header, 0),
            static_cast<ssize_t>(sizeof header));
  make(&half_, &world_);
  ASSERT_FALSE(HasFatalFailure());
  for (const int rank : {0, 1})
    EXPECT_EQ(half_.of(rank)->tuning.straight_tried, 4096u);
  call(half_, DW_OP_ALL_REDUCE, 5000);
}

TEST_F(TwoRanks, BroadcastGoesStraightFromThereOn) {
  open("one_way_tried=8192", "");
  ASSERT_FALSE(HasFatalFailure());
  call(world_, DW_OP_BROADCAST, 8191);  // all ranks publish their abilities
  if (!world_.of(1)->straight) GTEST_SKIP() << "no way into others' memory";
  EXPECT_FALSE(went_straight(*world_.of(1), 8191));
  call(world_, DW_OP_BROADCAST, 8192);
  EXPECT_TRUE(went_straight(*world_.of(1), 8192));
}

TEST_F(TwoRanks, AllReduceIsSlicedFromThereOn) {
  open("sliced_two=8192,direct_tried=1073741824", "");
  ASSERT_FALSE(HasFatalFailure());
  call(world_, DW_OP_ALL_REDUCE, 8191);
  EXPECT_EQ(last_round(*world_.of(0)), 0u);
  call(world_, DW_OP_ALL_REDUCE, 8192);
  EXPECT_EQ(last_round(*world_.of(0)), 3u);
}

TEST_F(TwoRanks, AllReduceReadsInPlaceFromThereOn) {
  open("sliced_two=1024,direct_tried=8192", "");
  ASSERT_FALSE(HasFatalFailure());
  call(world_, DW_OP_ALL_REDUCE, 8191);
  const Comm& comm = *world_.of(0);
  if (!comm.straight || comm.oversubscribed)
    GTEST_SKIP() << "not on this machine";
  EXPECT_NE(last_round(comm), 0u) << "results of shares are shown";
  call(world_, DW_OP_ALL_REDUCE, 8192);
  EXPECT_EQ(last_round(comm), 0u) << "nothing but where inputs lie";
}

// Ranks try both, agree on one, and results are right all along.
TEST_F(TwoRanks, BothWaysAreTried) {
  constexpr int64_t kBytes = 1 << 20;
  constexpr int kCalls = 60;
  open("", "");
  ASSERT_FALSE(HasFatalFailure());
  call(world_, DW_OP_BROADCAST, kBytes);
  Comm& comm = *world_.of(1);
  if (!comm.straight || comm.oversubscribed)
    GTEST_SKIP() << "not on this machine";
  int straight = 0;
  for (int i = 0; i < kCalls; ++i) {
    comm.ways[0] = {};
    call(world_, DW_OP_BROADCAST, kBytes);
    straight += went_straight(comm, kBytes);
    call(world_, DW_OP_ALL_REDUCE, kBytes);
  }
  EXPECT_GT(straight, 8);
  EXPECT_LT(straight, kCalls - 8);
}

// This cannot happen, but wrong results would be worse than an error.
TEST_F(TwoRanks, WhoGoesAnotherWayIsTold) {
  open("", "");
  ASSERT_FALSE(HasFatalFailure());
  call(world_, DW_OP_BROADCAST, 4096);
  if (!world_.of(1)->straight) GTEST_SKIP() << "not on this machine";
  world_.of(0)->tuning.one_way_tried = Tuning::kMost;
  const auto one = [&](int rank) {
    std::vector<unsigned char> data(1 << 20, 3);
    dw_op op = {};
    op.struct_size = sizeof op;
    op.kind = DW_OP_BROADCAST;
    op.flags = DW_FLAG_CALLER_WAITS;
    op.seq = seq_ + 1;
    op.timeout_ns = 5'000'000'000;
    op.out.data = data.data();
    op.out.count = static_cast<int64_t>(data.size());
    op.out.dtype = {1, 8, 1};
    if (rank == 0) op.in = op.out;
    dw_error error = {};
    const int32_t code = api().submit(world_.comms[rank], &op, nullptr, &error);
    if (rank == 0) return;  // rank 0 only has to publish
    EXPECT_EQ(code, DW_FAILED_PRECONDITION);
    EXPECT_EQ(error.reason, DW_REASON_CALL_MISMATCH) << error.text;
  };
  std::thread other(one, 1);
  one(0);
  other.join();
}

// As far as they can go, pieces of all sizes still fit where they are put.
TEST_F(TwoRanks, ExtremesAreRight) {
  for (const char* const bytes : {"1024", "1073741824"}) {
    std::string all;
#define SHM_TUNING(name, ignored, what, way) \
  all += std::string(all.empty() ? "" : ",") + #name + "=" + bytes;
#include "tuning.def"
    open(all, "");
    ASSERT_FALSE(HasFatalFailure());
    for (const int64_t size : {1023, 1024, 40'000, 3'000'000})
      for (const uint16_t kind : {DW_OP_ALL_REDUCE, DW_OP_BROADCAST})
        call(world_, kind, size);
    gather_counted(9 << 20);  // more than all staging
    for (const int rank : {0, 1}) {
      api().comm_destroy(world_.comms[rank], 0, nullptr);
      api().close(backends_[rank]);
      world_.comms[rank] = nullptr;
      backends_[rank] = nullptr;
    }
  }
}

}  // namespace
}  // namespace shm_backend
