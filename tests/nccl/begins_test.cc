// The host hears when the device begins an operation, and a time-out says what
// the device was doing.
#include "fake_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace distwrap::nccl_test {
namespace {

using fakes::gpu::Moment;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kLong{10000};
constexpr milliseconds kAWhile{5};  // the instance's thread looks meanwhile

// Waits for the host to hear of it.
bool begins(const dw_work& work) {
  for (int i = 0; i < 10000 && work.begins() == 0; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  return work.begins() == 1;
}

dw_op sum(const FakeRank& rank, const DeviceInts& x) {
  return rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1);
}

// Connects the ranks, for which all of them have to come.
void connect(FakeRank& rank) {
  ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
}

// Over a version without ncclCommRevoke, which connects in other calls, too.
class NcclBegins : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, NcclBegins, testing::Values(22304, 23203));

// An operation begins when its stream has come to it, and one behind it when it
// has ended, for which rank 1 has to come.
TEST_P(NcclBegins, BehindWhatIsOnTheStream) {
  Moment comes;
  run_ranks({.size = 2, .version = GetParam()}, [&](FakeRank& rank) {
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    connect(rank);
    dw_work first, second;
    if (rank.rank == 1) {
      comes.wait();
      ASSERT_EQ(rank.submit(rank.on(sum(rank, x), stream), &first), DW_OK);
      ASSERT_EQ(rank.submit(rank.on(sum(rank, x), stream), &second), DW_OK);
    } else {
      Moment gate;
      stream.put([&] { gate.wait(); });
      ASSERT_EQ(rank.submit(rank.on(sum(rank, x), stream), &first), DW_OK);
      ASSERT_EQ(rank.submit(rank.on(sum(rank, x), stream), &second), DW_OK);
      std::this_thread::sleep_for(kAWhile);
      EXPECT_EQ(first.begins(), 0) << "it waits for the gate";
      gate.happen();
      EXPECT_TRUE(begins(first));
      std::this_thread::sleep_for(kAWhile);
      EXPECT_EQ(second.begins(), 0) << "it waits for the first";
      EXPECT_EQ(first.completions(), 0) << "it waits for rank 1";
      comes.happen();
    }
    for (dw_work* const work : {&first, &second}) {
      ASSERT_TRUE(work->wait(kLong));
      EXPECT_LE(work->begins(), 1);
    }
  });
}

// Operations in host order follow each other, and those aside begin behind what
// the caller's stream had.
TEST_P(NcclBegins, InHostOrderAndAside) {
  Moment comes;
  run_ranks({.size = 2, .version = GetParam()}, [&](FakeRank& rank) {
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    connect(rank);
    dw_work first, second, aside;
    dw_op besides = rank.on(sum(rank, x), stream);
    besides.flags |= DW_FLAG_ASIDE;
    Moment gate;
    stream.put([&] { gate.wait(); });
    if (rank.rank == 1) comes.wait();
    ASSERT_EQ(rank.submit(sum(rank, x), &first), DW_OK);
    ASSERT_EQ(rank.submit(sum(rank, x), &second), DW_OK);
    ASSERT_EQ(rank.submit(besides, &aside), DW_OK);
    if (rank.rank == 0) {
      EXPECT_TRUE(begins(first));
      std::this_thread::sleep_for(kAWhile);
      EXPECT_EQ(second.begins(), 0);
      comes.happen();
    }
    ASSERT_TRUE(second.wait(kLong));
    std::this_thread::sleep_for(kAWhile);
    EXPECT_EQ(aside.begins(), 0) << "the stream has not come to it";
    gate.happen();
    ASSERT_TRUE(aside.wait(kLong));
    for (dw_work* const work : {&first, &second, &aside})
      EXPECT_LE(work->begins(), 1);
  });
}

// An operation on another stream does not hide the order of one stream.
TEST_P(NcclBegins, StreamsAreToldApart) {
  Moment comes;
  run_ranks({.size = 2, .version = GetParam()}, [&](FakeRank& rank) {
    CUstream_st a(rank.device), b(rank.device);
    const DeviceInts x(rank, {1});
    connect(rank);
    dw_work on_a, on_b, on_a_again;
    Moment gate;
    a.put([&] { gate.wait(); });
    if (rank.rank == 1) comes.wait();
    ASSERT_EQ(rank.submit(rank.on(sum(rank, x), a), &on_a), DW_OK);
    ASSERT_EQ(rank.submit(rank.on(sum(rank, x), b), &on_b), DW_OK);
    ASSERT_EQ(rank.submit(rank.on(sum(rank, x), a), &on_a_again), DW_OK);
    if (rank.rank == 0) {
      EXPECT_TRUE(begins(on_b));
      EXPECT_EQ(on_a.begins(), 0);
      gate.happen();
      EXPECT_TRUE(begins(on_a));
      std::this_thread::sleep_for(kAWhile);
      EXPECT_EQ(on_a_again.begins(), 0);
      comes.happen();
    }
    gate.happen();
    ASSERT_TRUE(on_a_again.wait(kLong));
    ASSERT_TRUE(on_b.wait(kLong));
  });
}

// The items of a set begin together.
TEST_P(NcclBegins, ASetBeginsTogether) {
  Moment comes;
  run_ranks({.size = 2, .version = GetParam()}, [&](FakeRank& rank) {
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1}), y(rank, {2});
    connect(rank);
    if (rank.rank == 1) comes.wait();
    const dw_op ops[] = {rank.on(sum(rank, x), stream),
                         rank.on(sum(rank, y), stream)};
    dw_work works[2];
    const dw_group_item items[] = {{rank.comm, &ops[0], &works[0]},
                                   {rank.comm, &ops[1], &works[1]}};
    ASSERT_EQ(nccl().submit_group(rank.backend, items, 2, &rank.error), DW_OK);
    if (rank.rank == 0) {
      EXPECT_TRUE(begins(works[0]));
      EXPECT_TRUE(begins(works[1]));
      comes.happen();
    }
    for (dw_work& work : works) ASSERT_TRUE(work.wait(kLong));
  });
}

// A set needs two events on each stream, however many items it has; each item
// completes.
TEST_P(NcclBegins, ASetSharesItsEvents) {
  run_ranks({.size = 1, .version = GetParam()}, [&](FakeRank& rank) {
    CUstream_st streams[] = {CUstream_st(rank.device),
                             CUstream_st(rank.device)};
    const DeviceInts x(rank, {1});
    constexpr int kItems = 8;
    std::vector<dw_op> ops;
    for (int i = 0; i < kItems; ++i)
      ops.push_back(rank.on(sum(rank, x), streams[i < 5 ? 0 : 1]));
    for (int round = 0; round < 3; ++round) {
      dw_work works[kItems];
      std::vector<dw_group_item> items;
      for (int i = 0; i < kItems; ++i)
        items.push_back({rank.comm, &ops[static_cast<size_t>(i)], &works[i]});
      const int before = fakes::gpu::events_recorded();
      ASSERT_EQ(
          nccl().submit_group(rank.backend, items.data(), kItems, &rank.error),
          DW_OK)
          << rank.error.text;
      EXPECT_EQ(fakes::gpu::events_recorded() - before, 4);
      for (dw_work& work : works) {
        ASSERT_TRUE(work.wait(kLong));
        EXPECT_EQ(work.code(), DW_OK) << work.error().text;
      }
    }
  });
}

// A caller that waits is told behind which operation its own is queued, and how
// long the device has been running it.
TEST_P(NcclBegins, ATimeOutSaysWhatTheDeviceDoes) {
  Moment over;
  run_ranks({.size = 2, .version = GetParam()}, [&](FakeRank& rank) {
    const DeviceInts x(rank, {1});
    connect(rank);
    if (rank.rank == 1) return over.wait();
    dw_op first = sum(rank, x);
    first.seq = 7;
    dw_work work;
    ASSERT_EQ(rank.submit(first, &work), DW_OK);
    EXPECT_TRUE(begins(work));
    dw_op second = sum(rank, x);
    second.timeout_ns = 20'000'000;
    EXPECT_EQ(rank.call(second), DW_DEADLINE_EXCEEDED);
    EXPECT_THAT(rank.error.text, HasSubstr("queued behind all_reduce #7, which "
                                           "has been running for 0.0"));
    over.happen();
    ASSERT_TRUE(work.wait(kLong));
  });
  Moment again;
  run_ranks({.size = 2, .version = GetParam()}, [&](FakeRank& rank) {
    const DeviceInts x(rank, {1});
    connect(rank);
    if (rank.rank == 1) return again.wait();
    dw_op op = sum(rank, x);
    op.timeout_ns = 20'000'000;
    EXPECT_EQ(rank.call(op), DW_DEADLINE_EXCEEDED);
    EXPECT_THAT(rank.error.text, HasSubstr("it has been running for 0.0"));
    again.happen();
  });
}

}  // namespace
}  // namespace distwrap::nccl_test
