// Ranks as processes: results, and peers that are killed.
#include "backend.h"
#include "host.h"
#include "process_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sched.h>
#include <vector>

namespace distwrap::shm_test {
namespace {

dw_buf view(std::vector<float>& values) {
  dw_buf buf = {};
  buf.data = values.data();
  buf.count = static_cast<int64_t>(values.size());
  buf.dtype = {2, 32, 1};
  return buf;
}

int32_t all_reduce(Rank& rank, uint64_t seq, size_t count, float* last,
                   dw_error* error) {
  std::vector<float> in(count, static_cast<float>(rank.rank + 1)), out(count);
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = DW_OP_ALL_REDUCE;
  op.reduce = DW_REDUCE_SUM;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.peer = -1;
  op.in = view(in);
  op.out = view(out);
  op.seq = seq;
  op.timeout_ns = 60'000'000'000;
  const int32_t code = rank.api.submit(rank.comm, &op, nullptr, error);
  *last = out.back();
  return code;
}

int32_t message(Rank& rank, uint16_t kind, int peer, std::vector<float>& data,
                dw_error* error) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.peer = peer;
  op.tag = 3;
  (kind == DW_OP_SEND ? op.in : op.out) = view(data);
  op.timeout_ns = 60'000'000'000;
  return rank.api.submit(rank.comm, &op, nullptr, error);
}

// Each way that a message can go, on both sides of where it changes; the first
// rank sends before it receives.
int exchange(Rank& rank) {
  dw_error error = {};
  const int next = (rank.rank + 1) % rank.size,
            before = (rank.rank + rank.size - 1) % rank.size;
  const bool first = rank.rank == 0;
  for (const size_t count : {1u, 100u, 1000u, 2048u, 2049u, 8192u, 8193u,
                             30000u, 262144u, 262145u, 500000u}) {
    std::vector<float> out(count), in(count), expected(count);
    for (size_t i = 0; i < count; ++i) {
      out[i] = static_cast<float>(i) + static_cast<float>(rank.rank);
      expected[i] = static_cast<float>(i) + static_cast<float>(before);
    }
    if (first && message(rank, DW_OP_SEND, next, out, &error) != DW_DONE)
      return 3;
    if (message(rank, DW_OP_RECV, before, in, &error) != DW_DONE) return 4;
    if (!first && message(rank, DW_OP_SEND, next, out, &error) != DW_DONE)
      return 5;
    if (in != expected) return 6;
  }
  return 0;
}

// All ranks have got here.
void meet(Rank& rank, int word) {
  rank.words[word].fetch_add(1);
  while (rank.words[word].load() < rank.size) sched_yield();
}

// In containers, say.
TEST(ShmProcesses, ExchangeWhereMemoryOfOthersCannotBeRead) {
  ProcessRanks ranks(3, [](Rank& rank) {
    shm_backend::of(rank.comm)->room.mine().process.store(0);
    meet(rank, 0);
    const int code = exchange(rank);
    meet(rank, 1);
    return code;
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

// Rank 1 lends to rank 0, which has to ask for the data.
TEST(ShmProcesses, ExchangeWhereOneCannotReadWhatIsLent) {
  ProcessRanks ranks(2, [](Rank& rank) {
    if (rank.rank == 1)
      shm_backend::of(rank.comm)->room.mine().itself.fetch_add(8);
    meet(rank, 0);
    const int code = exchange(rank);
    meet(rank, 1);
    return code;
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

// A collective of elements that differ by place and rank.
int32_t collective(Rank& rank, uint16_t kind, uint64_t seq,
                   std::vector<float>& in, std::vector<float>& out,
                   dw_error* error) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.reduce = kind == DW_OP_ALL_GATHER || kind == DW_OP_BROADCAST
                  ? DW_REDUCE_NONE
                  : DW_REDUCE_SUM;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.peer = kind == DW_OP_REDUCE || kind == DW_OP_BROADCAST ? 0 : -1;
  op.in = view(in);
  op.out = view(out);
  op.seq = seq;
  op.timeout_ns = 60'000'000'000;
  return rank.api.submit(rank.comm, &op, nullptr, error);
}

// Data larger than the caches are copied in another way: everything has to
// arrive, whole lines and the rest.
TEST(ShmProcesses, LargerThanTheCaches) {
  ProcessRanks ranks(2, [](Rank& rank) {
    constexpr size_t kCount = (size_t{8} << 20) + 13;
    const auto value = [](int of, size_t i) {
      return static_cast<float>((i * 7 + static_cast<size_t>(of) * 3) % 1009);
    };
    std::vector<float> in(kCount), out(kCount);
    for (size_t i = 0; i < kCount; ++i) in[i] = value(rank.rank, i);
    const auto is_sum = [&](size_t count, size_t from) {
      for (size_t i = 0; i < count; ++i)
        if (out[i] != value(0, from + i) + value(1, from + i)) return false;
      return true;
    };
    dw_error error = {};
    if (collective(rank, DW_OP_ALL_REDUCE, 1, in, out, &error) != DW_DONE)
      return 1;
    if (!is_sum(kCount, 0)) return 2;
    std::fill(out.begin(), out.end(), 0.f);
    if (collective(rank, DW_OP_REDUCE, 2, in, out, &error) != DW_DONE) return 3;
    if (rank.rank == 0 && !is_sum(kCount, 0)) return 4;
    out.resize(kCount / 2 + 1);
    in.resize(2 * out.size(), 0.f);
    if (collective(rank, DW_OP_REDUCE_SCATTER, 3, in, out, &error) != DW_DONE)
      return 5;
    const size_t half = out.size(), from = rank.rank == 0 ? 0 : half;
    if (!is_sum(std::min(half, kCount - from), from)) return 6;
    in.resize(kCount);
    out.resize(2 * kCount);
    if (collective(rank, DW_OP_ALL_GATHER, 4, in, out, &error) != DW_DONE)
      return 7;
    for (size_t i = 0; i < kCount; ++i)
      if (out[i] != value(0, i) || out[kCount + i] != value(1, i)) return 8;
    meet(rank, 0);
    return 0;
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.wait(rank), 0) << rank;
}

TEST(ShmProcesses, ReduceAndExchange) {
  ProcessRanks ranks(3, [](Rank& rank) {
    dw_error error = {};
    uint64_t seq = 0;
    for (const size_t count : {1u, 12u, 500u, 5000u, 100000u, 1000003u})
      for (int i = 0; i < 5; ++i) {
        float last = 0;
        if (all_reduce(rank, ++seq, count, &last, &error) != DW_DONE) return 1;
        if (last != 6) return 2;
      }
    if (int code = exchange(rank)) return code;
    // A process that ends without closing is a lost peer to those that still
    // wait, whoever they wait for.
    meet(rank, 0);
    return 0;
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.wait(rank), 0);
}

// Around the sizes at which the way changes, often enough that each way of a
// size has its turn; in place, elsewhere, and differently from rank to rank.
// `spoil` may take a rank's memory out of the others' reach.
void reduce_all_ways(int size, const std::function<void(Rank&)>& spoil) {
  ProcessRanks ranks(size, [&spoil](Rank& rank) {
    spoil(rank);
    meet(rank, 0);
    const auto value = [](int of, size_t i) {
      return static_cast<float>((i * 7 + static_cast<size_t>(of) * 31) % 1009);
    };
    const auto sum = [&](size_t i) {
      float all = 0;
      for (int r = 0; r < rank.size; ++r) all += value(r, i);
      return all;
    };
    dw_error error = {};
    uint64_t seq = 0;
    for (const size_t count :
         {12288u, 32768u, 65541u, 262143u, 262144u, 700001u})
      for (int turn = 0; turn < 8; ++turn) {
        std::vector<float> in(count), out(count, -1.f);
        for (size_t i = 0; i < count; ++i) in[i] = value(rank.rank, i);
        const std::vector<float> before = in;
        const bool in_place = turn % 4 == 3 || turn % 4 == rank.rank + 1;
        std::vector<float>& result = in_place ? in : out;
        if (collective(rank, DW_OP_ALL_REDUCE, ++seq, in, result, &error) !=
            DW_DONE)
          return 1;
        for (size_t i = 0; i < count; ++i)
          if (result[i] != sum(i)) return 2;
        if (!in_place && in != before) return 3;
        in = before;
        std::vector<float> last(count, -1.f);
        if (collective(rank, DW_OP_REDUCE, ++seq, in,
                       in_place && rank.rank == 0 ? in : last,
                       &error) != DW_DONE)
          return 4;
        const std::vector<float>& reduced = in_place ? in : last;
        for (size_t i = 0; i < count && rank.rank == 0; ++i)
          if (reduced[i] != sum(i)) return 5;
        if (rank.rank != 0 && (in != before || last.back() != -1.f)) return 6;
        in = before;
        const size_t each = count / static_cast<size_t>(rank.size);
        in.resize(each * static_cast<size_t>(rank.size));
        std::vector<float> part(each, -1.f);
        if (collective(rank, DW_OP_REDUCE_SCATTER, ++seq, in, part, &error) !=
            DW_DONE)
          return 7;
        for (size_t i = 0; i < each; ++i)
          if (part[i] != sum(each * static_cast<size_t>(rank.rank) + i))
            return 8;
      }
    meet(rank, 1);
    return 0;
  });
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(ranks.wait(rank), 0) << rank;
}

TEST(ShmProcesses, ReduceWhatTheyReadInEachOther) {
  for (const int size : {2, 3})
    reduce_all_ways(size, [](Rank& rank) {
      shm_backend::of(rank.comm)->oversubscribed = false;
    });
}

TEST(ShmProcesses, ReduceWhereOneCannotReadTheOther) {
  reduce_all_ways(2, [](Rank& rank) {
    if (rank.rank == 1)
      shm_backend::of(rank.comm)->room.mine().process.store(0);
  });
}

// The victim is killed at some moment of operations one after the other; the
// others say who it was.
void kill_one(size_t count, int victim, int moment,
              bool oversubscribed = true) {
  ProcessRanks ranks(3, [count, victim, oversubscribed](Rank& rank) {
    shm_backend::of(rank.comm)->oversubscribed = oversubscribed;
    dw_error error = {};
    for (uint64_t seq = 1;; ++seq) {
      float last = 0;
      const int32_t code = all_reduce(rank, seq, count, &last, &error);
      if (code == DW_DONE) {
        if (last != 6) return 2;
        rank.words[rank.rank].fetch_add(1);
        continue;
      }
      rank.api.comm_abort(rank.comm, &error);
      if (code != DW_UNAVAILABLE || error.reason != DW_REASON_PEER_LOST) {
        std::fprintf(stderr, "rank %d: code %d, reason %d, peer %d: %s\n",
                     rank.rank, code, error.reason, error.peer, error.text);
        return 3;
      }
      // Another survivor may have noticed first, and given up.
      return error.peer == victim || error.peer == 3 - victim - rank.rank ? 0
                                                                          : 4;
    }
  });
  while (ranks.words()[0].load() < 3) sched_yield();
  const int64_t until = conformance::now_ns() + int64_t{37'000} * moment;
  while (conformance::now_ns() < until) sched_yield();
  kill(ranks.pid(victim), SIGKILL);
  const int64_t killed = conformance::now_ns();
  EXPECT_EQ(ranks.wait(victim), -1);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    EXPECT_EQ(ranks.wait(rank), 0)
        << "rank " << rank << ", victim " << victim << ", moment " << moment;
  }
  EXPECT_LT(conformance::now_ns() - killed, int64_t{10'000'000'000});
}

TEST(ShmProcesses, AKilledPeerIsNamedInSmallOperations) {
  for (int moment = 0; moment < 6; ++moment) kill_one(1, moment % 3, moment);
}

TEST(ShmProcesses, AKilledPeerIsNamedInLargeOperations) {
  for (int moment = 0; moment < 6; ++moment)
    kill_one(300000, moment % 3, moment * 5);
}

// While the others read its memory.
TEST(ShmProcesses, AKilledPeerIsNamedByWhoReadsItsMemory) {
  for (int moment = 0; moment < 6; ++moment)
    kill_one(1000000, moment % 3, moment * 20, false);
}

TEST(ShmProcesses, AKilledPeerEndsAReceive) {
  ProcessRanks ranks(2, [](Rank& rank) {
    rank.words[rank.rank].store(1);
    if (rank.rank == 1)
      for (;;) sched_yield();
    dw_error error = {};
    std::vector<float> in(10);
    const int32_t code = message(rank, DW_OP_RECV, 1, in, &error);
    return code == DW_UNAVAILABLE && error.peer == 1 ? 0 : 1;
  });
  while (ranks.words()[1].load() == 0) sched_yield();
  kill(ranks.pid(1), SIGKILL);
  EXPECT_EQ(ranks.wait(1), -1);
  EXPECT_EQ(ranks.wait(0), 0);
}

}  // namespace
}  // namespace distwrap::shm_test
