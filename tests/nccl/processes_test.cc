// Ranks as processes, over each version of the fake NCCL: their calls meet in a
// hub, and one of them may be killed.
#include "fake_nccl.h"
#include "fakes/nccl/hub.h"
#include "host.h"
#include "process_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace distwrap::nccl_test {
namespace {

using conformance::ProcessPlan;
using conformance::ProcessRanks;
using conformance::Rank;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Ints = std::vector<int64_t>;

template <int kVersion>
const dw_backend_api& table() {
  return on_host_memory(kVersion);
}

using Table = const dw_backend_api& (*)();
Table table_of(int version) {
  switch (version) {
    case 21903:
      return table<21903>;
    case 22304:
      return table<22304>;
    case 22803:
      return table<22803>;
    case 22902:
      return table<22902>;
    default:
      return table<23203>;
  }
}

ProcessPlan plan_of(Table of, const fakes::nccl::Hub& hub) {
  ProcessPlan plan;
  plan.table = of;
  plan.prepare = [&hub](int rank) {
    use_devices_from(rank);
    return setenv("FAKE_NCCL_HUB", hub.path(), 1) == 0;
  };
  return plan;
}

dw_op op_of(uint16_t kind, const Ints& in, Ints& out, int32_t peer = -1) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.peer = peer;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.in.data = in.empty() ? nullptr : const_cast<int64_t*>(in.data());
  op.out.data = out.empty() ? nullptr : out.data();
  op.in.count = static_cast<int64_t>(in.size());
  op.out.count = static_cast<int64_t>(out.size());
  op.in.dtype = op.out.dtype = {0, 64, 1};
  if (kind == DW_OP_ALL_REDUCE || kind == DW_OP_REDUCE ||
      kind == DW_OP_REDUCE_SCATTER)
    op.reduce = DW_REDUCE_SUM;
  op.timeout_ns = 20'000'000'000;
  return op;
}

// A call of the group and what this rank has to get.
struct Call {
  uint16_t kind;
  int32_t root;
  Ints in, out, wanted;
};

// Rank r brings 10 r, 10 r + 1, ...
std::vector<Call> calls_of(int rank, int n) {
  const auto size = static_cast<size_t>(n);
  Ints many, firsts, column, zeros(size, -1), sums;
  int64_t sum = 0;
  for (int r = 0; r < n; ++r) {
    many.push_back(10 * rank + r);
    firsts.push_back(10 * r);
    column.push_back(10 * r + rank);
    sum += 10 * r;
  }
  for (int r = 0; r < n; ++r) sums.push_back(sum + int64_t{n} * r);
  const Ints own = {10 * rank}, one = {-1}, none;
  const int last = n - 1;
  const auto at = [&](bool root, const Ints& there) {
    return root ? there : none;
  };
  return {
      {DW_OP_ALL_REDUCE, -1, many, zeros, sums},
      {DW_OP_BROADCAST, last, at(rank == last, many), zeros,
       [&] {
         Ints from;
         for (int r = 0; r < n; ++r) from.push_back(10 * last + r);
         return from;
       }()},
      {DW_OP_REDUCE, 0, many, at(rank == 0, zeros), at(rank == 0, sums)},
      {DW_OP_ALL_GATHER, -1, own, zeros, firsts},
      {DW_OP_GATHER, last, own, at(rank == last, zeros),
       at(rank == last, firsts)},
      {DW_OP_SCATTER, 0, at(rank == 0, many), one, {rank}},
      {DW_OP_REDUCE_SCATTER, -1, many, one, {sums[static_cast<size_t>(rank)]}},
      {DW_OP_ALL_TO_ALL, -1, many, zeros, column},
  };
}

// 0, or the number of the call whose result is wrong. The first call that fails
// ends it.
int run_calls(const dw_backend_api& api, dw_comm* comm, int rank, int n,
              bool* failed) {
  int at = 0;
  for (Call& call : calls_of(rank, n)) {
    ++at;
    dw_op op = op_of(call.kind, call.in, call.out, call.root);
    dw_error error = {};
    const int32_t code = api.submit(comm, &op, nullptr, &error);
    if (code != DW_DONE) {
      *failed = true;
      return 0;
    }
    if (call.out != call.wanted) return at;
  }
  return 0;
}

class NcclProcesses : public testing::TestWithParam<int> {};

TEST_P(NcclProcesses, EveryCollective) {
  for (const int n : {1, 2, 4, 8}) {
    const fakes::nccl::Hub hub;
    ProcessRanks ranks(plan_of(table_of(GetParam()), hub), n, [](Rank& self) {
      for (int i = 0; i < 3; ++i) {
        bool failed = false;
        const int wrong =
            run_calls(self.api, self.comm, self.rank, self.size, &failed);
        if (failed) return 90;
        if (wrong != 0) return wrong;
      }
      const int32_t ended = self.api.comm_destroy(
          self.comm, conformance::now_ns() + 20'000'000'000, nullptr);
      self.api.close(self.backend);
      return ended == DW_OK ? 0 : 91;
    });
    for (int r = 0; r < n; ++r) EXPECT_EQ(ranks.wait(r), 0) << r << " of " << n;
  }
}

// The fakes have windows for ranks that are threads: where a rank is a process,
// NCCL refuses to register one. The group goes on.
TEST_P(NcclProcesses, AWindowThatNcclRefuses) {
  const fakes::nccl::Hub hub;
  ProcessRanks ranks(plan_of(table_of(GetParam()), hub), 1, [](Rank& self) {
    dw_mem* mem = nullptr;
    dw_buf memory = {};
    memory.count = 4096;
    memory.dtype = {1, 8, 1};
    if (self.api.mem_alloc(self.backend, 4096, &mem, &memory.data, nullptr) !=
        DW_OK)
      return 80;
    if (self.make_window(memory, 0) != nullptr) return 81;
    if (self.api.mem_release(self.backend, mem, nullptr) != DW_OK) return 82;
    bool failed = false;
    const int wrong =
        run_calls(self.api, self.comm, self.rank, self.size, &failed);
    return failed ? 90 : wrong;
  });
  EXPECT_EQ(ranks.wait(0), 0);
}

INSTANTIATE_TEST_SUITE_P(Versions, NcclProcesses, testing::ValuesIn(versions()),
                         [](const auto& version) {
                           return std::to_string(version.param);
                         });

// Where the ranks that are left exchange what their setups say.
struct Left {
  static constexpr size_t kMost = 4096;
  std::atomic<uint64_t> arrived;
  size_t sizes[2];
  char blobs[2][kMost];

  static Left* make() {
    return static_cast<Left*>(mmap(nullptr, sizeof(Left),
                                   PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  void meet() {
    const uint64_t turn = arrived.fetch_add(1) / 2;
    while (arrived.load() < (turn + 1) * 2) sched_yield();
  }

  // Ranks 0 and 2 of three build a communicator of what is left of `parent`.
  dw_comm* build(Rank& self) {
    const int32_t parents[] = {0, 2}, hosts[] = {0, 0};
    dw_setup_info info = {};
    info.struct_size = sizeof info;
    info.flags = DW_SETUP_COMMUNICATOR;
    info.rank = self.rank == 0 ? 0 : 1;
    info.size = 2;
    info.uid = 8;
    info.epoch = 1;
    info.host_of = hosts;
    info.parent = self.comm;
    info.parent_rank = parents;
    dw_setup* setup = nullptr;
    dw_blob out = {};
    int32_t code =
        self.api.setup_begin(self.backend, &info, &setup, &out, nullptr);
    while (code == DW_OK) {
      sizes[info.rank] = out.size;
      std::memcpy(blobs[info.rank], out.data, out.size);
      meet();
      const std::string copies[] = {{blobs[0], sizes[0]}, {blobs[1], sizes[1]}};
      meet();
      dw_blob in[2];
      for (int r = 0; r < 2; ++r)
        in[r] = {copies[r].data(), copies[r].size(), nullptr, 0};
      dw_setup_result result = {};
      code = self.api.setup_step(setup, in, 2, &out, &result, nullptr);
      if (code == DW_DONE) return result.comm;
    }
    return nullptr;
  }
};

enum Word { kStarted, kLost };

// A rank that is left: it makes calls until one fails, which happens soon after
// the host has heard of the loss, and never with wrong data. Then it goes on
// with the other one that is left.
int survive(Rank& self, Left* left) {
  std::atomic<bool> over = false;
  Clock::time_point told = Clock::time_point::max();
  std::thread host([&] {
    while (self.words[kLost] == 0 && !over) sched_yield();
    dw_error why = {};
    why.code = DW_UNAVAILABLE;
    why.reason = DW_REASON_PEER_LOST;
    why.peer = 1;
    std::snprintf(why.text, sizeof why.text, "rank 1 is lost");
    told = Clock::now();
    self.api.comm_abort(self.comm, &why);
  });
  self.words[kStarted].fetch_add(1);
  bool failed = false;
  int wrong = 0;
  while (!failed && wrong == 0)
    wrong = run_calls(self.api, self.comm, self.rank, self.size, &failed);
  const Clock::time_point ended = Clock::now();
  over = true;
  host.join();
  if (wrong != 0) return wrong;
  if (self.words[kLost] == 0) return 92;  // nobody was lost yet
  if (ended - told > milliseconds(1000)) return 93;
  dw_comm* const made = left->build(self);
  if (made == nullptr) return 94;
  failed = false;
  wrong = run_calls(self.api, made, self.rank == 0 ? 0 : 1, 2, &failed);
  if (failed) return 95;
  if (wrong != 0) return 60 + wrong;
  const int64_t limit = conformance::now_ns() + 20'000'000'000;
  self.api.comm_destroy(made, limit, nullptr);
  self.api.comm_destroy(self.comm, limit, nullptr);
  self.api.close(self.backend);
  return 0;
}

// F1, F2: rank 1 is killed at a random moment of its calls.
TEST_P(NcclProcesses, ARankIsKilled) {
  std::minstd_rand random(seed_of(GetParam()));
  for (int i = 0; i < 5; ++i) {
    const fakes::nccl::Hub hub;
    Left* const left = Left::make();
    {
      ProcessRanks ranks(plan_of(table_of(GetParam()), hub), 3,
                         [left](Rank& self) {
                           if (self.rank != 1) return survive(self, left);
                           self.words[kStarted].fetch_add(1);
                           bool failed = false;
                           while (!failed)
                             run_calls(self.api, self.comm, 1, 3, &failed);
                           return 96;
                         });
      while (ranks.words()[kStarted] < 3) sched_yield();
      std::this_thread::sleep_for(microseconds(random() % 20000));
      kill(ranks.pid(1), SIGKILL);
      EXPECT_EQ(ranks.wait(1), -1);
      ranks.words()[kLost] = 1;
      EXPECT_EQ(ranks.wait(0), 0);
      EXPECT_EQ(ranks.wait(2), 0);
    }
    munmap(left, sizeof(Left));
  }
}

}  // namespace
}  // namespace distwrap::nccl_test
