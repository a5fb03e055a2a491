// Strided pieces that ranks read where they lie: by CMA and staged in turn,
// with runs of every length, and ranks that leave.
#include "distwrap/abi/blocks.h"

#include "host.h"
#include "process_ranks.h"
#include "sdk/blocks.h"
#include "thread_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <sched.h>
#include <vector>

namespace distwrap::shm_test {
namespace {

constexpr char kUntouched = 0x6e;

char value(int from, int to, uint64_t i, uint64_t seq) {
  return static_cast<char>(static_cast<uint64_t>(from) * 31 +
                           static_cast<uint64_t>(to) * 17 + i * 7 + i / 4096 +
                           seq);
}

// Blocks of one buffer, one behind the other, with gaps between the runs.
struct Blocks {
  // A block of `size` bytes in runs of about `run`.
  void add(uint64_t size, uint64_t run, uint64_t gap) {
    counts.push_back(static_cast<int64_t>(size));
    if (size == 0) return blocks.push_back({});
    while (run > size || size % run != 0) --run;
    const uint64_t n = size / run, rows = n % 3 == 0 ? 3 : 1;
    blocks.push_back({end,
                      run,
                      {1, rows, n / rows},
                      {0, (run + gap) * (n / rows) + gap, run + gap}});
    uint64_t all, upto;
    ASSERT_TRUE(dw_sdk::measure(blocks.back(), &all, &upto));
    ASSERT_EQ(all, size);
    end = upto + gap;
  }
  void lay_out() { bytes.assign(end + 64, kUntouched); }
  // Writes bytes to block `number`.
  template <class Value>
  void fill(size_t number, const Value& value) {
    std::vector<char> packed(static_cast<size_t>(counts[number]));
    for (size_t i = 0; i < packed.size(); ++i) packed[i] = value(i);
    dw_sdk::scatter(
        bytes.data(), blocks[number], packed.data(), 0, packed.size(),
        [](char* to, const char* from, size_t n) { std::copy_n(from, n, to); });
  }
  dw_buf view(bool counted) {
    dw_buf buf = {};
    buf.data = bytes.data();
    buf.dtype = {1, 8, 1};
    for (const int64_t count : counts) buf.count += count;
    if (counted) buf.counts = counts.data();
    return buf;
  }
  std::vector<dw_block> blocks;
  std::vector<int64_t> counts;
  std::vector<char> bytes;
  uint64_t end = 0;
};

// An exchange or a gather; `bytes(from, to)` says how much each rank gives.
struct Move {
  template <class Bytes>
  Move(uint16_t kind, int rank, int size, uint64_t seq, const Bytes& bytes,
       uint64_t in_run, uint64_t out_run) {
    const bool gathers = kind == DW_OP_ALL_GATHER;
    const auto to_of = [&](int to) { return gathers ? 0 : to; };
    for (int to = 0; to < (gathers ? 1 : size); ++to)
      in.add(bytes(rank, to), in_run, 40);
    for (int from = 0; from < size; ++from)
      out.add(bytes(from, to_of(rank)), out_run, 24);
    in.lay_out();
    out.lay_out();
    want.blocks = out.blocks;
    want.counts = out.counts;
    want.end = out.end;
    want.lay_out();
    for (size_t to = 0; to < in.blocks.size(); ++to)
      in.fill(to, [&](uint64_t i) {
        return value(rank, static_cast<int>(to), i, seq);
      });
    for (int from = 0; from < size; ++from)
      want.fill(static_cast<size_t>(from),
                [&](uint64_t i) { return value(from, to_of(rank), i, seq); });
    before = in.bytes;
    static constexpr char kId[] = DW_EXT_BLOCKS;
    extension = {
        {sizeof extension, DW_EXT_REQUIRED, {kId, sizeof kId - 1}, nullptr},
        in.blocks.data(),
        out.blocks.data()};
    op.struct_size = sizeof op;
    op.kind = kind;
    op.peer = -1;
    op.flags = DW_FLAG_PER_RANK | DW_FLAG_CALLER_WAITS;
    op.in = in.view(!gathers);
    op.out = out.view(true);
    op.next = &extension.head;
    op.seq = seq;
    op.timeout_ns = 60'000'000'000;
  }
  Move(const Move&) = delete;
  Move& operator=(const Move&) = delete;

  Blocks in, out, want;
  std::vector<char> before;
  dw_ext_blocks extension;
  dw_op op = {};
};

// An exchange of 300 KB a pair whose runs have 3 KB.
struct LongRuns : Move {
  LongRuns(uint16_t kind, int rank, int size, uint64_t seq)
      : Move(
            kind, rank, size, seq, [](int, int) { return uint64_t{300'000}; },
            3000, 1500) {}
};

// Operations whose pieces have one of a few sizes each and runs of every
// length. 0, or what was wrong.
int operations(const dw_backend_api& api, dw_comm* comm, int rank, int size) {
  constexpr uint64_t kBytes[] = {0, 24, 30'000, 300'000, 1'200'000};
  constexpr uint64_t kRuns[] = {8, 1000, 1024, 3000, 30'000, 1'200'000};
  for (uint64_t seq = 1; seq <= 50; ++seq) {
    std::mt19937_64 shared(seq);
    const uint16_t kind =
        shared() % 2 == 0 ? DW_OP_ALL_GATHER : DW_OP_ALL_TO_ALL;
    const uint64_t salt = shared();
    std::mt19937_64 own(seq * 64 + static_cast<uint64_t>(rank));
    const uint64_t in_run = kRuns[own() % std::size(kRuns)];
    const uint64_t out_run = kRuns[own() % std::size(kRuns)];
    Move move(
        kind, rank, size, seq,
        [&](int from, int to) {
          return kBytes[(salt + static_cast<uint64_t>(from) * 5 +
                         static_cast<uint64_t>(to) * 3) %
                        std::size(kBytes)];
        },
        in_run, out_run);
    dw_error error = {};
    if (api.submit(comm, &move.op, nullptr, &error) != DW_DONE) return 1;
    if (move.in.bytes != move.before) return 2;
    if (move.out.bytes != move.want.bytes) return 3;
  }
  return 0;
}

class BlocksMove : public testing::TestWithParam<int> {};

TEST_P(BlocksMove, BetweenThreads) {
  const int size = GetParam();
  run_threads(size, [size](conformance::Member& member) {
    EXPECT_EQ(operations(member.api, member.comm, member.rank, size), 0)
        << "rank " << member.rank;
  });
}

TEST_P(BlocksMove, BetweenProcesses) {
  const int size = GetParam();
  ProcessRanks ranks(size, [](Rank& rank) {
    return operations(rank.api, rank.comm, rank.rank, rank.size);
  });
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(ranks.wait(rank), 0) << rank;
}

INSTANTIATE_TEST_SUITE_P(Sizes, BlocksMove, testing::Values(2, 3));

constexpr uint16_t kKinds[] = {DW_OP_ALL_TO_ALL, DW_OP_ALL_GATHER};

TEST(BlocksFailure, AKilledPeerIsNamed) {
  for (int moment = 0; moment < 12; ++moment)
    expect_killed_is_named(moment % 3, moment, [moment](Rank& rank) {
      auto move = std::make_shared<LongRuns>(kKinds[moment % 2], rank.rank,
                                             rank.size, 1);
      return [&rank, move](uint64_t seq, dw_error* error) {
        move->op.seq = seq;
        return rank.api.submit(rank.comm, &move->op, nullptr, error);
      };
    });
}

}  // namespace
}  // namespace distwrap::shm_test
