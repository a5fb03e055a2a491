// The order of operations on streams, over each version of NCCL.
#include "fake_ranks.h"
#include "nccl/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace distwrap::nccl_test {
namespace {

using fakes::gpu::Moment;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kLong{10000};

class NcclStreams : public testing::TestWithParam<int> {
 protected:
  Team team(int size = 2) const {
    return {.size = size, .version = GetParam()};
  }
};

// The host goes on at once, and what the stream has before comes first.
TEST_P(NcclStreams, AnOperationRunsBehindWhatIsOnItsStream) {
  run_ranks(team(), [](FakeRank& rank) {
    CUstream_st stream(rank.device);
    Moment gate;
    const DeviceInts x(rank, {0}), y(rank, {0});
    // The first call connects, for which all ranks have to come.
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    stream.put([&] {
      gate.wait();
      x.set({rank.rank + 1});
    });
    dw_work work;
    ASSERT_EQ(
        rank.submit(
            rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream),
            &work),
        DW_OK)
        << rank.error.text;
    stream.put([&] { y.set(x.values()); });
    EXPECT_EQ(work.completions(), 0) << "it waits for the gate";
    gate.happen();
    stream.synchronize();
    EXPECT_EQ(y.values(), Ints{3});
    ASSERT_TRUE(work.wait(kLong));
    EXPECT_EQ(work.code(), DW_OK);
  });
}

// The items of a set share the event of their end; a stream may wait for any of
// them.
TEST_P(NcclStreams, AStreamWaitsForAnItemOfASet) {
  run_ranks(team(1), [](FakeRank& rank) {
    CUstream_st stream(rank.device), other(rank.device);
    Moment gate;
    const DeviceInts x(rank, {1}), y(rank, {2});
    stream.put([&] {
      gate.wait();
      x.set({7});
    });
    const dw_op ops[] = {
        rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream),
        rank.on(rank.op(DW_OP_ALL_REDUCE, y.data(), y.data(), 1), stream)};
    dw_work works[2];
    const dw_group_item items[] = {{rank.comm, &ops[0], &works[0]},
                                   {rank.comm, &ops[1], &works[1]}};
    ASSERT_EQ(nccl().submit_group(rank.backend, items, 2, &rank.error), DW_OK);
    const dw_stream waits = {DW_DEVICE_CUDA, rank.device, &other};
    for (dw_work& work : works)
      ASSERT_EQ(nccl().work_wait_stream(rank.comm, &work, &waits, &rank.error),
                DW_OK)
          << rank.error.text;
    int64_t seen = 0;
    other.put([&] { seen = x.values()[0]; });
    gate.happen();
    other.synchronize();
    EXPECT_EQ(seen, 7);
    for (dw_work& work : works) ASSERT_TRUE(work.wait(kLong));
  });
}

// A host of a later minor has more fields, which are zero here.
TEST_P(NcclStreams, ASetOfALaterHost) {
  struct LaterOp {
    dw_op op;
    uint64_t more;
  };
  run_ranks(team(), [](FakeRank& rank) {
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {rank.rank + 1}), y(rank, {rank.rank + 5});
    LaterOp ops[2] = {
        {rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream), 0},
        {rank.on(rank.op(DW_OP_ALL_REDUCE, y.data(), y.data(), 1), stream), 0}};
    dw_work works[2];
    for (LaterOp& later : ops) later.op.struct_size = sizeof later;
    const dw_group_item items[] = {{rank.comm, &ops[0].op, &works[0]},
                                   {rank.comm, &ops[1].op, &works[1]}};
    ops[1].more = 1;
    EXPECT_EQ(nccl().submit_group(rank.backend, items, 2, &rank.error),
              DW_INCOMPATIBLE);
    ops[1].more = 0;
    ASSERT_EQ(nccl().submit_group(rank.backend, items, 2, &rank.error), DW_OK)
        << rank.error.text;
    for (dw_work& work : works) ASSERT_TRUE(work.wait(kLong));
    EXPECT_EQ(x.values(), Ints{3});
    EXPECT_EQ(y.values(), Ints{11});
  });
}

TEST_P(NcclStreams, CallsOfOneStreamRunInTheirOrder) {
  run_ranks(team(3), [](FakeRank& rank) {
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {rank.rank + 1});
    constexpr int kTimes = 8;
    dw_work works[kTimes];
    const dw_op op =
        rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream);
    for (dw_work& work : works)
      ASSERT_EQ(rank.submit(op, &work), DW_OK) << rank.error.text;
    stream.synchronize();
    EXPECT_EQ(x.values(), Ints{6 * 2187});
    for (dw_work& work : works) EXPECT_TRUE(work.wait(kLong));
  });
}

TEST_P(NcclStreams, AsideTheStreamGoesOn) {
  Moment comes;
  run_ranks(team(), [&](FakeRank& rank) {
    CUstream_st stream(rank.device), other(rank.device);
    const DeviceInts x(rank, {rank.rank + 1}), y(rank, {0});
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    if (rank.rank == 1) comes.wait();
    dw_op op =
        rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream);
    op.flags |= DW_FLAG_ASIDE;
    dw_work work;
    ASSERT_EQ(rank.submit(op, &work), DW_OK) << rank.error.text;
    stream.synchronize();  // does not wait for the other rank
    const dw_stream waits = {DW_DEVICE_CUDA, rank.device, &other};
    if (rank.rank == 0) {
      EXPECT_EQ(work.completions(), 0);
      EXPECT_EQ(nccl().work_wait_stream(rank.comm, &work, &waits, nullptr),
                DW_OK);
    }
    Moment copied;
    other.put([&] {
      if (rank.rank == 0) y.set(x.values());
      copied.happen();
    });
    if (rank.rank == 0) {
      EXPECT_FALSE(copied.has_happened()) << "the stream waits";
      comes.happen();
    }
    copied.wait();
    if (rank.rank == 0) {
      EXPECT_EQ(y.values(), Ints{3});
    }
    ASSERT_TRUE(work.wait(kLong));
    EXPECT_EQ(nccl().work_wait_stream(rank.comm, &work, &waits, nullptr),
              DW_DONE)
        << "it has ended";
  });
}

// Later work of a stream waits for the items of a set that are not aside, and
// for others when it is told to.
TEST_P(NcclStreams, ASetThatIsAsideInPart) {
  run_ranks(team(), [](FakeRank& rank) {
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {0}), y(rank, {0}), z(rank, {0});
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    // Items of both kinds run behind what is there before.
    Moment gate;
    stream.put([&] {
      gate.wait();
      for (const DeviceInts* const one : {&x, &y}) one->set({rank.rank + 1});
    });
    dw_op ops[] = {
        rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream),
        rank.on(rank.op(DW_OP_ALL_REDUCE, y.data(), y.data(), 1), stream)};
    ops[1].flags |= DW_FLAG_ASIDE;
    dw_work works[2];
    const dw_group_item items[] = {{rank.comm, &ops[0], &works[0]},
                                   {rank.comm, &ops[1], &works[1]}};
    ASSERT_EQ(nccl().submit_group(rank.backend, items, 2, &rank.error), DW_OK)
        << rank.error.text;
    stream.put([&] { z.set(x.values()); });
    for (const dw_work& work : works) EXPECT_EQ(work.completions(), 0);
    gate.happen();
    stream.synchronize();
    EXPECT_EQ(z.values(), Ints{3}) << "the stream waits for the first";
    const dw_stream waits = {DW_DEVICE_CUDA, rank.device, &stream};
    EXPECT_LE(nccl().work_wait_stream(rank.comm, &works[1], &waits, nullptr),
              DW_OK);
    stream.put([&] { z.set(y.values()); });
    stream.synchronize();
    EXPECT_EQ(z.values(), Ints{3});
    for (dw_work& work : works) {
      ASSERT_TRUE(work.wait(kLong));
      EXPECT_EQ(work.code(), DW_OK);
    }
  });
}

// Messages of a set do not wait for each other, and a rank may be its own peer.
TEST_P(NcclStreams, ASetIsOneGroupOfNccl) {
  run_ranks(team(), [](FakeRank& rank) {
    CUstream_st stream(rank.device), other(rank.device);
    const int peer = 1 - rank.rank;
    const DeviceInts out(rank, {10 + rank.rank}), in(rank, {-1});
    const DeviceInts own(rank, {5}), copy(rank, {-1}),
        sum(rank, {rank.rank + 1});
    const dw_op ops[] = {
        rank.on(rank.op(DW_OP_SEND, out.data(), nullptr, 1, peer), stream),
        rank.on(rank.op(DW_OP_RECV, nullptr, in.data(), 1, peer), stream),
        rank.on(rank.op(DW_OP_SEND, own.data(), nullptr, 1, rank.rank), other),
        rank.on(rank.op(DW_OP_RECV, nullptr, copy.data(), 1, rank.rank), other),
        rank.on(rank.op(DW_OP_ALL_REDUCE, sum.data(), sum.data(), 1), stream)};
    dw_work works[5];
    std::vector<dw_group_item> items;
    for (int i = 0; i < 5; ++i)
      items.push_back({rank.comm, &ops[i], &works[i]});
    ASSERT_EQ(nccl().submit_group(rank.backend, items.data(), items.size(),
                                  &rank.error),
              DW_OK)
        << rank.error.text;
    for (dw_work& work : works) {
      ASSERT_TRUE(work.wait(kLong));
      EXPECT_EQ(work.code(), DW_OK);
    }
    EXPECT_EQ(in.values(), Ints{10 + peer});
    EXPECT_EQ(copy.values(), Ints{5});
    EXPECT_EQ(sum.values(), Ints{3});
  });
}

// In host order the call waits, and afterwards the memory is the caller's.
TEST_P(NcclStreams, WithoutAStreamTheCallWaits) {
  run_ranks(team(), [](FakeRank& rank) {
    const DeviceInts x(rank, {rank.rank + 1, 1});
    EXPECT_EQ(rank.call(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 2)),
              DW_DONE)
        << rank.error.text;
    EXPECT_EQ(x.values(), (Ints{3, 2}));
  });
}

TEST_P(NcclStreams, TheLegacyDefaultStreamIsHandleOne) {
  run_ranks(team(1), [](FakeRank& rank) {
    const DeviceInts x(rank, {4}), y(rank, {0});
    dw_op op = rank.op(DW_OP_ALL_REDUCE, x.data(), y.data(), 1);
    op.stream = {DW_DEVICE_CUDA, rank.device, reinterpret_cast<void*>(1)};
    dw_work work;
    ASSERT_EQ(rank.submit(op, &work), DW_OK) << rank.error.text;
    ASSERT_TRUE(work.wait(kLong));
    EXPECT_EQ(y.values(), Ints{4});
    op.stream.native = nullptr;
    EXPECT_EQ(rank.submit(op, &work), DW_INVALID_ARGUMENT);
    EXPECT_THAT(rank.error.text, HasSubstr("handle 1"));
  });
}

// The plain forms are NCCL's own calls where the version has them. With lists,
// which NCCL does not have, they are messages.
TEST_P(NcclStreams, N12_NativeCallsAreUsedWhereThereAre) {
  const bool native = GetParam() >= 22803;
  fakes::gpu::take_notes();
  run_ranks(team(), [](FakeRank& rank) {
    const int64_t me = rank.rank;
    const DeviceInts x(rank, {me, me + 10}), y(rank, {-1, -1}), one(rank, {-1});
    EXPECT_EQ(rank.call(rank.op(DW_OP_ALL_TO_ALL, x.data(), y.data(), 2)),
              DW_DONE);
    EXPECT_EQ(y.values(), (Ints{10 * me, 10 * me + 1}));
    dw_op scatter = rank.op(DW_OP_SCATTER, x.data(), one.data(), 1, 0);
    scatter.in.count = 2;
    EXPECT_EQ(rank.call(scatter), DW_DONE);
    EXPECT_EQ(one.values(), Ints{10 * me});
    dw_op gather = rank.op(DW_OP_GATHER, one.data(), y.data(), 1, 1);
    gather.out.count = 2;
    EXPECT_EQ(rank.call(gather), DW_DONE);
    if (me == 1) {
      EXPECT_EQ(y.values(), (Ints{0, 10}));
    }
  });
  const std::vector<std::string> notes = fakes::gpu::take_notes();
  for (const char* const name : {"ncclAlltoAll", "ncclScatter", "ncclGather"})
    EXPECT_THAT(notes, testing::Contains(name).Times(native ? 2 : 0));
  run_ranks(team(), [](FakeRank& rank) {
    const DeviceInts x(rank, {1, 2}), y(rank, {-1, -1});
    const int64_t counts[] = {1, 1};
    dw_op lists = rank.op(DW_OP_ALL_TO_ALL, x.data(), y.data(), 2);
    lists.in.counts = lists.out.counts = counts;
    lists.flags |= DW_FLAG_PER_RANK;
    EXPECT_EQ(rank.call(lists), DW_DONE);
  });
  EXPECT_THAT(fakes::gpu::take_notes(), testing::IsEmpty());
}

// A program's thread keeps the context that it had.
TEST_P(NcclStreams, N08_TheCallersContextStays) {
  run_ranks(team(1), [](FakeRank& rank) {
    EXPECT_EQ(fakes::gpu::current_device(), -1);
    ASSERT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE);
    EXPECT_EQ(fakes::gpu::current_device(), -1);
    EXPECT_EQ(fakes::gpu::contexts_in_use(), 1) << "only of its own device";
  });
}

// Otherwise each short operation would cost its caller a system call, and a
// switch to the instance's thread.
TEST(NcclThread, ShortOperationsSeldomWakeIt) {
  run_ranks({.size = 1}, [](FakeRank& rank) {
    CUstream_st stream(rank.device);
    const DeviceInts x(rank, {1});
    const dw_op op =
        rank.on(rank.op(DW_OP_ALL_REDUCE, x.data(), x.data(), 1), stream);
    const auto run_to_the_end = [&] {
      dw_work work;
      ASSERT_EQ(rank.submit(op, &work), DW_OK) << rank.error.text;
      ASSERT_TRUE(work.wait(kLong));
    };
    nccl_backend::Watch& watch = *nccl_backend::of(rank.backend)->watch;
    // Another round where the machine was too busy to run this thread at once.
    constexpr int kTimes = 100;
    int woken = kTimes;
    for (int round = 0; round < 100 && woken >= kTimes / 2; ++round) {
      const int before = watch.wake_ups();
      for (int i = 0; i < kTimes; ++i) run_to_the_end();
      woken = watch.wake_ups() - before;
    }
    EXPECT_LT(woken, kTimes / 2);

    // When nothing has flown for a while it sleeps.
    const int before = watch.wake_ups();
    for (int i = 0; i < 1000 && watch.wake_ups() == before; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      run_to_the_end();
    }
    EXPECT_GT(watch.wake_ups(), before);
  });
}

INSTANTIATE_TEST_SUITE_P(Versions, NcclStreams, testing::ValuesIn(versions()),
                         [](const auto& version) {
                           return std::to_string(version.param);
                         });

}  // namespace
}  // namespace distwrap::nccl_test
