// Collectives that one post of each rank is enough for, again and again: what
// they give on both sides of every size where the way changes, with ranks that
// are late, far ahead, or call something else.
#include "short_call.h"

#include "backend.h"
#include "far_ranks.h"
#include "host.h"
#include "thread_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace distwrap::shm_test {
namespace {

constexpr uint16_t kKinds[] = {
    DW_OP_BARRIER,    DW_OP_BROADCAST,     DW_OP_REDUCE, DW_OP_ALL_REDUCE,
    DW_OP_GATHER,     DW_OP_SCATTER,       DW_OP_SCAN,   DW_OP_ALL_GATHER,
    DW_OP_ALL_TO_ALL, DW_OP_REDUCE_SCATTER};

uint8_t value(int rank, uint64_t seq, size_t i) {
  return static_cast<uint8_t>(static_cast<size_t>(rank) * 31 + seq * 7 + i * 3 +
                              i / 64);
}
constexpr uint8_t kUntouched = 0xee;

// One call of u8, `each` bytes in a rank's piece; sums are modulo 256.
struct Case {
  uint16_t kind = DW_OP_BARRIER;
  size_t each = 0;
  int root = 0, size = 2;
  bool exclusive = false;

  bool rooted() const {
    return kind == DW_OP_BROADCAST || kind == DW_OP_REDUCE ||
           kind == DW_OP_GATHER || kind == DW_OP_SCATTER;
  }
  size_t all() const { return each * static_cast<size_t>(size); }
  size_t in_bytes(int rank) const {
    switch (kind) {
      case DW_OP_BARRIER:
        return 0;
      case DW_OP_BROADCAST:
        return rank == root ? each : 0;
      case DW_OP_SCATTER:
        return rank == root ? all() : 0;
      case DW_OP_ALL_TO_ALL:
      case DW_OP_REDUCE_SCATTER:
        return all();
      default:
        return each;
    }
  }
  size_t out_bytes(int rank) const {
    switch (kind) {
      case DW_OP_BARRIER:
        return 0;
      case DW_OP_REDUCE:
        return rank == root ? each : 0;
      case DW_OP_GATHER:
        return rank == root ? all() : 0;
      case DW_OP_ALL_GATHER:
      case DW_OP_ALL_TO_ALL:
        return all();
      default:
        return each;
    }
  }
  uint8_t expected(int rank, uint64_t seq, size_t i) const {
    const size_t begin = static_cast<size_t>(rank) * each;
    const auto sum = [&](int ranks, size_t at) {
      unsigned total = 0;
      for (int r = 0; r < ranks; ++r) total += value(r, seq, at);
      return static_cast<uint8_t>(total);
    };
    const int from = each == 0 ? 0 : static_cast<int>(i / each);
    switch (kind) {
      case DW_OP_BROADCAST:
        return value(root, seq, i);
      case DW_OP_SCATTER:
        return value(root, seq, begin + i);
      case DW_OP_GATHER:
      case DW_OP_ALL_GATHER:
        return value(from, seq, i % each);
      case DW_OP_ALL_TO_ALL:
        return value(from, seq, begin + i % each);
      case DW_OP_REDUCE_SCATTER:
        return sum(size, begin + i);
      case DW_OP_SCAN:
        return exclusive && rank == 0 ? kUntouched
                                      : sum(rank + (exclusive ? 0 : 1), i);
      default:
        return sum(size, i);
    }
  }
};

dw_op op_of(const Case& one, uint64_t seq) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = one.kind;
  op.flags =
      DW_FLAG_CALLER_WAITS | (one.exclusive ? uint32_t{DW_FLAG_EXCLUSIVE} : 0);
  op.peer = one.rooted() ? one.root : -1;
  if (one.kind == DW_OP_REDUCE || one.kind == DW_OP_ALL_REDUCE ||
      one.kind == DW_OP_SCAN || one.kind == DW_OP_REDUCE_SCATTER)
    op.reduce = DW_REDUCE_SUM;
  op.seq = seq;
  op.timeout_ns = 60'000'000'000;
  return op;
}

// The first mistake, or null.
const char* call(conformance::Member& member, const Case& one, uint64_t seq,
                 size_t shift) {
  constexpr size_t kGuard = 64;
  const size_t takes = one.out_bytes(member.rank);
  std::vector<uint8_t> in(one.in_bytes(member.rank) + shift);
  std::vector<uint8_t> out(takes + shift + kGuard, kUntouched);
  for (size_t i = shift; i < in.size(); ++i)
    in[i] = value(member.rank, seq, i - shift);
  const std::vector<uint8_t> before = in;
  dw_op op = op_of(one, seq);
  const auto view = [&](std::vector<uint8_t>& bytes, size_t count) {
    dw_buf buf = {};
    if (count == 0) return buf;
    buf.data = bytes.data() + shift;
    buf.count = static_cast<int64_t>(count);
    buf.dtype = {1, 8, 1};
    return buf;
  };
  op.in = view(in, one.in_bytes(member.rank));
  op.out = view(out, takes);
  if (one.each == 0 && one.kind != DW_OP_BARRIER)
    op.in.dtype = op.out.dtype = {1, 8, 1};
  dw_error error = {};
  if (member.api.submit(member.comm, &op, nullptr, &error) != DW_DONE)
    return "refused";
  if (in != before) return "input changed";
  for (size_t i = 0; i < out.size(); ++i) {
    const bool inside = i >= shift && i - shift < takes;
    if (out[i] !=
        (inside ? one.expected(member.rank, seq, i - shift) : kUntouched))
      return inside ? "wrong" : "written beside";
  }
  return nullptr;
}

class ShortCalls : public testing::TestWithParam<int> {};

// Each several times, since calls like the last go the shortest way, with one
// rank late for some.
void exercise(int size, std::vector<size_t> sizes, bool apart) {
  const auto n = static_cast<size_t>(size);
  for (const size_t most :
       {shm_backend::kInside, size_t{2048}, shm_backend::ShortCall::kMost})
    for (const size_t around :
         {most - 1, most, most + 1, most / n, most / n + 1})
      sizes.push_back(around);
  std::atomic<int> arrived = 0;
  run_threads(size, [&](conformance::Member& member) {
    if (apart) move_apart(member);
    uint64_t seq = 0;
    int barriers = 0;
    std::mt19937 random(7);  // equal on all ranks
    for (const size_t each : sizes)
      for (const uint16_t kind : kKinds)
        for (int again = 0; again < 3; ++again) {
          const int root = static_cast<int>(random() % n);
          const int late = static_cast<int>(random() % (4 * n));
          if (late == member.rank)
            std::this_thread::sleep_for(std::chrono::microseconds(200));
          const Case one = {kind, each, root, size,
                            kind == DW_OP_SCAN && again == 1};
          ++seq;
          if (kind == DW_OP_BARRIER) arrived.fetch_add(1);
          const char* const wrong = call(member, one, seq, random() % 3);
          if (kind == DW_OP_BARRIER) {
            ASSERT_GE(arrived.load(), size * ++barriers)
                << "rank " << member.rank << " waited for nobody";
          }
          ASSERT_EQ(wrong, nullptr)
              << "operation " << kind << " of " << each << " bytes, rank "
              << member.rank << ", root " << root;
        }
    if (apart) expect_apart(member);
  });
}

TEST_P(ShortCalls, GiveWhatTheyShould) {
  exercise(GetParam(), {0, 1, 8, 47, 48, 49, 511, 512, 2047, 2048, 2049},
           false);
}

// Where ranks write past their caches; what is large as well.
TEST(FarCalls, GiveWhatTheyShould) {
  for (const int size : {2, 3})
    exercise(size, {48, 2047, 2048, 2049, 40'000, 150'000}, true);
}

// A rank shows a round before it has read what the others have shown in the one
// before that: there has to be room, wherever the last call has left the ring,
// also where ranks that share processors use a part of it.
TEST(Exchanges, GoOnWhereverTheRingBegins) {
  using shm_backend::Staging;
  for (const int size : {2, 4})
    for (const int way : {0, 1, 2})
      run_threads(size, [size, way](conformance::Member& member) {
        shm_backend::of(member.comm)->oversubscribed = way != 0;
        // As if there were no memory for more.
        if (way == 2) shm_backend::of(member.comm)->staging = Staging::kSmall;
        std::mt19937 random(11);  // equal on all ranks
        const auto below = [&](size_t bytes) { return random() % bytes + 1; };
        for (uint64_t seq = 1; seq <= 60; ++seq) {
          const uint16_t kind =
              random() % 2 == 0 ? DW_OP_ALL_TO_ALL : DW_OP_ALL_GATHER;
          const size_t each =
              seq % 2 == 0 ? below(40'000) : 100'000 + below(400'000);
          ASSERT_EQ(call(member, {kind, each, 0, size}, seq, 0), nullptr)
              << "operation " << kind << " of " << each << " bytes, rank "
              << member.rank;
          // All of it through staging.
          shm_backend::of(member.comm)->straight = false;
        }
      });
}

// Other ranks publish only now and then how far they have read, which must not
// delay a rank that waits for a line.
TEST_P(ShortCalls, OneThatIsFarAheadIsWaitedForByNobody) {
  const int size = GetParam();
  run_threads(size, [size](conformance::Member& member) {
    uint64_t seq = 0;
    for (const size_t each : {size_t{8}, size_t{300}})
      for (const uint16_t kind :
           {uint16_t{DW_OP_BROADCAST}, uint16_t{DW_OP_SCATTER},
            uint16_t{DW_OP_GATHER}})
        for (uint32_t i = 0; i < 5 * shm_backend::kPosts + 3; ++i) {
          const bool reads = (kind == DW_OP_GATHER) == (member.rank == 0);
          if (reads && i % 40 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          const Case one = {kind, each, 0, size};
          ASSERT_EQ(call(member, one, ++seq, 0), nullptr)
              << "operation " << kind << ", " << i;
        }
  });
}

// Data inside a line need no staging.
TEST(ShortCall, ThatFollowsManyIsStagedInTheLargeRing) {
  using shm_backend::Staging;
  for (const size_t each : {size_t{8}, shm_backend::kInside + 1, size_t{1024}})
    run_threads(2, [each](conformance::Member& member) {
      for (uint64_t seq = 1; seq <= 200; ++seq) {
        if (member.rank == 1 && seq % 16 == 1)
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        ASSERT_EQ(call(member, {DW_OP_BROADCAST, each, 0, 2}, seq, 0), nullptr)
            << seq;
        const Staging staging = shm_backend::of(member.comm)->staging;
        if (seq < 10 || each <= shm_backend::kInside) {
          EXPECT_EQ(staging, Staging::kUnknown);
        } else if (seq > 100) {
          EXPECT_EQ(staging, Staging::kLarge);
        }
      }
    });
}

// A published call is found as always, and a call that differs is reported.
TEST(ShortCall, ThatDiffersIsToldOnBothSides) {
  for (const bool late : {false, true})
    run_threads(2, [late](conformance::Member& member) {
      for (uint64_t seq = 1; seq <= 5; ++seq)
        ASSERT_EQ(call(member, {DW_OP_ALL_REDUCE, 8, 0, 2}, seq, 0), nullptr);
      if (late && member.rank == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      uint8_t in[16] = {}, out[16] = {};
      dw_op op = op_of({DW_OP_ALL_REDUCE, 8, 0, 2}, 6);
      op.in.data = in;
      op.out.data = out;
      op.in.dtype = op.out.dtype = {1, 8, 1};
      op.in.count = op.out.count = member.rank == 0 ? 8 : 16;
      dw_error error = {};
      EXPECT_EQ(member.api.submit(member.comm, &op, nullptr, &error),
                DW_FAILED_PRECONDITION);
      EXPECT_EQ(error.reason, DW_REASON_CALL_MISMATCH) << error.text;
    });
}

TEST(Trace, OfACallThatHasNoneNothingIsSaid) {
  static int said = 0, waited = 0;
  dw_host_api host = {};
  host.under_way = [](dw_trace*) { ++said; };
  host.waits = [](dw_trace*) { ++waited; };
  dw_under_way(&host, nullptr);
  dw_waits(&host, nullptr);
  EXPECT_EQ(said + waited, 0);
  dw_trace* const trace = reinterpret_cast<dw_trace*>(&host);
  dw_under_way(&host, trace);
  dw_waits(&host, trace);
  EXPECT_EQ(said, 1);
  EXPECT_EQ(waited, 1);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShortCalls, testing::Values(2, 3, 5));

}  // namespace
}  // namespace distwrap::shm_test
