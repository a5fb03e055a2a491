// Every result code, and no return at all, at every call of NCCL and of the
// driver that a short program makes.
#include "fake_ranks.h"
#include "nccl/cuda_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace distwrap::nccl_test {
namespace {

using fakes::gpu::Calls;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLong{10000};
// The limit of what has 50 ms, on a machine that does much else.
constexpr milliseconds kSoon{1000};

bool has_windows(int version) { return version >= 22902; }

// Whether a window and calls on it work. When one does not the group is over.
// `*kept`: NCCL has not let go of the memory.
bool run_window(FakeRank& rank, void* at, bool* kept) {
  dw_window* window = nullptr;
  if (rank.build_window(at, 16, &window) != DW_OK) {
    EXPECT_NE(rank.error.text[0], '\0');
    return false;
  }
  bool good = true;
  for (const dw_op& op : {rank.on_window(DW_OP_PUT, window, 0, at, 1, 8),
                          rank.on_window(DW_OP_SIGNAL, window, 0),
                          rank.on_window(DW_OP_WAIT_SIGNAL, window, 0),
                          rank.on_window(DW_OP_WAIT_SIGNAL, window, 0)})
    if (good && rank.call(op) != DW_DONE) {
      good = false;
      EXPECT_NE(rank.error.text[0], '\0');
      EXPECT_NE(rank.call(op), DW_DONE) << "the window is broken";
    }
  const int32_t ended = rank.end_window(window);
  if (ended == DW_OK) {
    EXPECT_TRUE(good);
    return good;
  }
  EXPECT_NE(rank.error.text[0], '\0');
  *kept = ended != DW_ABORTED;
  if (*kept) {
    EXPECT_TRUE(gives_nccls_reason(rank.error)) << rank.error.text;
  }
  return false;
}

// Whether a set of messages of a rank to itself works.
bool run_set(FakeRank& rank, void* from, void* to) {
  const dw_op ops[] = {rank.op(DW_OP_SEND, from, nullptr, 1, 0),
                       rank.op(DW_OP_RECV, nullptr, to, 1, 0)};
  dw_work works[2];
  dw_group_item items[2];
  for (size_t i = 0; i < 2; ++i) items[i] = {rank.comm, &ops[i], &works[i]};
  rank.error = {};
  const int32_t code = nccl().submit_group(rank.backend, items, 2, &rank.error);
  if (code != DW_OK) return false;
  bool good = true;
  for (dw_work& work : works) {
    EXPECT_TRUE(work.wait(kLong));
    if (work.code() == DW_OK) continue;
    rank.error = work.error();
    good = false;
  }
  return good;
}

// Whether operations on a stream, aside and in its order, work.
bool run_on_stream(FakeRank& rank, void* from, void* to) {
  CUstream_st stream(rank.device);
  for (const uint32_t flags : {uint32_t{0}, uint32_t{DW_FLAG_ASIDE}}) {
    dw_op op = rank.on(rank.op(DW_OP_ALL_REDUCE, from, to, 1), stream);
    op.flags |= flags;
    dw_work work;
    if (rank.submit(op, &work) != DW_OK) return false;
    const int32_t waits =
        nccl().work_wait_stream(rank.comm, &work, &op.stream, &rank.error);
    EXPECT_TRUE(work.wait(kLong));
    if (work.code() != DW_OK) rank.error = work.error();
    if (waits > DW_OK || work.code() != DW_OK) return false;
  }
  return true;
}

// Whether a communicator ends as it should.
bool end_comm(FakeRank& rank, dw_comm* comm) {
  rank.error = {};
  return nccl().comm_destroy(comm, conformance::now_ns() + 5'000'000'000,
                             &rank.error) == DW_OK;
}

// Whether a communicator that NCCL splits off works.
bool run_split(FakeRank& rank, void* from, void* to) {
  const int32_t parents[] = {0};
  const dw_hint split = {{"split", 5}, {"1", 1}};
  dw_setup_info info = {};
  info.flags = DW_SETUP_ALL_OF_PARENT;
  info.size = 1;
  info.uid = 9;
  info.parent = rank.comm;
  info.parent_rank = parents;
  info.hints = &split;
  info.n_hints = 1;
  dw_comm* made = nullptr;
  if (rank.build(info, rank.meeting, &made) != DW_OK) return false;
  dw_op op = rank.op(DW_OP_ALL_REDUCE, from, to, 1);
  op.flags |= DW_FLAG_CALLER_WAITS;
  rank.error = {};
  if (nccl().submit(made, &op, nullptr, &rank.error) == DW_DONE)
    return end_comm(rank, made);
  dw_error ignored = {};
  std::swap(rank.error, ignored);
  end_comm(rank, made);
  std::swap(rank.error, ignored);
  return false;
}

// Whether the rank's communicator, if there is one, ends as it should.
bool end(FakeRank& rank) {
  if (rank.comm == nullptr) return true;
  if (end_comm(rank, std::exchange(rank.comm, nullptr))) return true;
  EXPECT_TRUE(gives_nccls_reason(rank.error)) << rank.error.text;
  return false;
}

// A short program: everything that calls NCCL on the way of a rank.
void run_program(FakeRank& rank, int version, bool* all_good) {
  *all_good = rank.open() == DW_OK && rank.build() == DW_OK;
  if (!*all_good) return;
  const DeviceInts x(rank, {1, 2}), y(rank, {0, 0});
  double factor = 2;
  dw_op premul = rank.op(DW_OP_ALL_REDUCE, x.data(), y.data(), 2);
  premul.in.dtype = premul.out.dtype = {2, 64, 1};
  premul.reduce = DW_REDUCE_PREMUL_SUM;
  premul.scale = &factor;
  dw_op lists = rank.op(DW_OP_ALL_TO_ALL, x.data(), y.data(), 2);
  const int64_t counts[] = {2};
  lists.in.counts = lists.out.counts = counts;
  lists.flags |= DW_FLAG_PER_RANK;
  for (const dw_op& op :
       {rank.op(DW_OP_BARRIER, nullptr, nullptr, 0), premul, lists,
        rank.op(DW_OP_ALL_GATHER, x.data(), y.data(), 2),
        rank.op(DW_OP_BROADCAST, x.data(), y.data(), 2, 0),
        rank.op(DW_OP_REDUCE, x.data(), y.data(), 2, 0),
        rank.op(DW_OP_REDUCE_SCATTER, x.data(), y.data(), 2),
        rank.op(DW_OP_ALL_TO_ALL, x.data(), y.data(), 2),
        rank.op(DW_OP_GATHER, x.data(), y.data(), 2, 0),
        rank.op(DW_OP_SCATTER, x.data(), y.data(), 2, 0)})
    if (rank.call(op) != DW_DONE) {
      *all_good = false;
      EXPECT_NE(rank.error.text[0], '\0');
      // Without an event the call has not reached NCCL.
      if (!fakes::gpu::has_driver_failed()) {
        EXPECT_NE(rank.call(op), DW_DONE) << "the group is broken";
      }
    }
  for (const auto run : {run_set, run_on_stream, run_split})
    if (!run(rank, x.data(), y.data())) {
      *all_good = false;
      EXPECT_NE(rank.error.text[0], '\0');
    }
  dw_mem* mem = nullptr;
  void* data = nullptr;
  if (nccl().mem_alloc(rank.backend, 16, &mem, &data, nullptr) != DW_OK) {
    *all_good = false;
    return;
  }
  dw_op registered = rank.op(DW_OP_ALL_REDUCE, data, data, 2);
  registered.flags |= DW_FLAG_REGISTERED;
  // In a group that has failed it fails, too.
  if (rank.call(registered) != DW_DONE) *all_good = false;
  bool kept = false;
  if (has_windows(version) && !run_window(rank, data, &kept)) *all_good = false;
  if (nccl().mem_release(rank.backend, mem, nullptr) == DW_OK) return;
  // Nothing has changed.
  *all_good = false;
  EXPECT_EQ(nccl().mem_release(rank.backend, mem, nullptr) == DW_OK, !kept);
}

class NcclEveryCall : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, NcclEveryCall, testing::ValuesIn(versions()),
                         [](const auto& version) {
                           return std::to_string(version.param);
                         });

// Each call of NCCL returns late, long after its group was aborted. The abort
// returns at once, other devices go on, and in the end nothing is left.
TEST_P(NcclEveryCall, NoReturn) {
  for (int nth = 1;; ++nth) {
    bool happened = false;
    run_unopened({.size = 1, .version = GetParam()}, [&](FakeRank& rank) {
      fakes::gpu::hang_call(nth);
      std::atomic<bool> over = false;
      std::thread program([&] {
        bool good = false;
        run_program(rank, GetParam(), &good);
        over = true;
      });
      while (!over && !fakes::gpu::call_hangs()) std::this_thread::yield();
      happened = fakes::gpu::call_hangs();
      if (happened) {
        const auto begun = Clock::now();
        const dw_error why = why_of("NCCL does not return");
        if (dw_comm* const comm = rank.comm) {
          EXPECT_EQ(nccl().comm_abort(comm, &why), DW_OK);
        }
        EXPECT_LT(Clock::now() - begun, kSoon) << "call " << nth;
        expect_goes_on(1);
      }
      fakes::gpu::let_go();
      program.join();
      rank.close();
    });
    if (!happened) {
      EXPECT_GT(nth, 30);
      break;
    }
  }
}

// A group of this rank works, and nothing is left of those before.
void run_again(FakeRank& rank) {
  expect_nothing_left();
  EXPECT_EQ(rank.open(), DW_OK) << rank.error.text;
  EXPECT_EQ(rank.build(), DW_OK) << rank.error.text;
  EXPECT_EQ(rank.call(rank.op(DW_OP_BARRIER, nullptr, nullptr, 0)), DW_DONE)
      << rank.error.text;
  rank.close();
  expect_nothing_left();
}

// Each call of NCCL fails once, ends of communicators included: over the newest
// version with each of its codes, over the others with one of them. The error
// comes out, and a group of the same thread works afterwards: none was left
// open.
TEST_P(NcclEveryCall, EveryCode) {
  std::set<int> without_error;
  for (int nth = 1;; ++nth) {
    bool happened = false;
    for (const int code : codes_of(nth, GetParam()))
      run_unopened({.size = 1, .version = GetParam()}, [&](FakeRank& rank) {
        const InUse before;
        fakes::gpu::fail_call(nth, code);
        bool good = false;
        run_program(rank, GetParam(), &good);
        good = end(rank) && good;
        happened = fakes::gpu::has_failed();
        fakes::gpu::fail_call(0, 0);
        EXPECT_TRUE(good || happened) << rank.error.text;
        if (good && happened) without_error.insert(nth);
        rank.close();
        run_again(rank);
        before.expect_same();
      });
    if (!happened) {
      EXPECT_GT(nth, 30);
      break;
    }
  }
  // A reduction that NCCL keeps ends with its communicator.
  EXPECT_THAT(without_error, testing::SizeIs(1));
}

// The calls that end a communicator, and those that only ask.
class NcclEveryEnd : public testing::TestWithParam<std::tuple<int, Calls>> {
 protected:
  int version() const { return std::get<0>(GetParam()); }
  Calls sort() const { return std::get<1>(GetParam()); }
};

std::string name_of_end(
    const testing::TestParamInfo<NcclEveryEnd::ParamType>& of) {
  return std::to_string(std::get<0>(of.param)) + name_of(std::get<1>(of.param));
}
INSTANTIATE_TEST_SUITE_P(
    Versions, NcclEveryEnd,
    testing::Combine(testing::ValuesIn(versions()),
                     testing::Values(Calls::kDestroy, Calls::kAbort,
                                     Calls::kRevoke, Calls::kQuestion)),
    name_of_end);

TEST_P(NcclEveryEnd, Fails) {
  for (const bool by_abort : {false, true})
    for (int nth = 1, happened = 1; happened != 0;
         nth = next_call(nth, sort())) {
      happened = 0;
      std::vector<int> codes = codes_of(nth, version());
      if (sort() == Calls::kQuestion) codes.resize(1);
      for (const int code : codes)
        run_unopened({.size = 1, .version = version()}, [&](FakeRank& rank) {
          SCOPED_TRACE("call " + std::to_string(nth));
          const InUse before;
          fakes::gpu::fail_call(nth, code, sort());
          bool good = false;
          run_program(rank, version(), &good);
          const dw_error why = why_of("a test ends it");
          if (by_abort && rank.comm != nullptr) {
            EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
          }
          good = end(rank) && good;
          happened = fakes::gpu::has_failed();
          fakes::gpu::fail_call(0, 0);
          if (good) {
            // An abort follows a revocation that fails.
            const bool may_be_silent = sort() == Calls::kRevoke ||
                                       (sort() == Calls::kQuestion && by_abort);
            EXPECT_TRUE(happened == 0 || may_be_silent);
          } else {
            EXPECT_NE(happened, 0) << rank.error.text;
          }
          rank.close();
          run_again(rank);
          const bool keeps =
              sort() == Calls::kAbort || sort() == Calls::kDestroy;
          before.expect_same(keeps ? happened : 0);
        });
    }
}

// A call that returns late is no failure, and other devices go on meanwhile.
TEST_P(NcclEveryEnd, ReturnsLate) {
  for (const bool by_abort : {false, true})
    for (int nth = 1, happened = 1; happened != 0; nth = next_call(nth, sort()))
      run_unopened({.size = 1, .version = version()}, [&](FakeRank& rank) {
        SCOPED_TRACE("call " + std::to_string(nth));
        const InUse before;
        fakes::gpu::hang_call(nth, sort());
        std::atomic<bool> over = false;
        std::thread program([&] {
          bool good = false;
          run_program(rank, version(), &good);
          const dw_error why = why_of("a test ends it");
          if (by_abort && rank.comm != nullptr) {
            EXPECT_EQ(nccl().comm_abort(rank.comm, &why), DW_OK);
          }
          EXPECT_TRUE(end(rank) && good) << rank.error.text;
          rank.close();
          over = true;
        });
        while (!over && !fakes::gpu::call_hangs()) std::this_thread::yield();
        happened = fakes::gpu::call_hangs();
        if (happened != 0) expect_goes_on(1);
        fakes::gpu::let_go();
        program.join();
        run_again(rank);
        before.expect_same();
      });
}

// Each call of the driver that makes or orders something fails once. The error
// comes out, and nothing is left.
TEST(NcclEveryDriverCall, Fails) {
  std::set<int> without_error;
  for (int nth = 1;; ++nth) {
    bool happened = false;
    for (const int code : {int{CUDA_ERROR_OUT_OF_MEMORY}, 999})
      run_unopened({.size = 1}, [&](FakeRank& rank) {
        const InUse before;
        fakes::gpu::fail_driver_call(nth, code);
        bool good = false;
        run_program(rank, 23203, &good);
        const bool in_program = fakes::gpu::has_driver_failed();
        rank.close();
        happened = fakes::gpu::has_driver_failed();
        fakes::gpu::fail_driver_call(0, 0);
        EXPECT_TRUE(good || in_program) << rank.error.text;
        if (good && in_program) without_error.insert(nth);
        SCOPED_TRACE("call " + std::to_string(nth));
        run_again(rank);
        before.expect_same();
      });
    if (!happened) {
      EXPECT_GT(nth, 10);
      break;
    }
  }
  EXPECT_THAT(without_error, testing::IsEmpty());
}

}  // namespace
}  // namespace distwrap::nccl_test
