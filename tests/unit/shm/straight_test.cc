// Data that go from buffer to buffer: all forms of the operations that move,
// on both sides of the sizes where the way changes, and ranks that leave.
#include "straight.h"

#include "backend.h"
#include "host.h"
#include "process_ranks.h"
#include "route.h"
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

struct End {
  const dw_backend_api& api;
  dw_comm* comm;
  int rank, size;
};

shm_backend::Comm* inside(const End& end) { return shm_backend::of(end.comm); }

// Ranks that share processors do not go this way.
void give_processors(dw_comm* comm) {
  shm_backend::of(comm)->oversubscribed = false;
}

unsigned char value(int from, int to, size_t i) {
  const size_t n = i * 7 + static_cast<size_t>(from) * 31 +
                   static_cast<size_t>(to) * 17 + i / 4096;
  return static_cast<unsigned char>(n % 251);
}
constexpr unsigned char kUntouched = 0xee;
constexpr size_t kGuard = 80;

// A buffer of a piece for each rank, at an odd place, with a guard around.
struct Buffer {
  Buffer(const std::vector<int64_t>& given, size_t shift) : counts(given) {
    size_t at = 0;
    for (const int64_t count : counts) {
      displs.push_back(static_cast<int64_t>(at));
      at += static_cast<size_t>(count);
    }
    bytes.assign(at + 2 * kGuard + shift, kUntouched);
    base = bytes.data() + kGuard + shift;
    total = at;
  }
  unsigned char* piece(size_t at) { return base + displs[at]; }
  bool guarded() const {
    const auto is_guard = [](unsigned char byte) { return byte == kUntouched; };
    const unsigned char* const begin = bytes.data();
    const unsigned char* const at = base;
    return std::all_of(begin, at, is_guard) &&
           std::all_of(at + total, begin + bytes.size(), is_guard);
  }
  dw_buf view(bool per_rank) {
    dw_buf buf = {};
    buf.data = base;
    buf.count = static_cast<int64_t>(total);
    buf.dtype = {1, 8, 1};
    if (per_rank) {
      buf.counts = counts.data();
      buf.displs = displs.data();
    }
    return buf;
  }
  std::vector<int64_t> counts, displs;
  std::vector<unsigned char> bytes;
  unsigned char* base = nullptr;
  size_t total = 0;
};

constexpr uint16_t kKinds[] = {DW_OP_BROADCAST, DW_OP_ALL_GATHER, DW_OP_GATHER,
                               DW_OP_SCATTER, DW_OP_ALL_TO_ALL};

int64_t random_count(std::mt19937_64& random) {
  constexpr int64_t kCounts[] = {0,     1,     48,     4095,   8191,
                                 8192,  8193,  32767,  32768,  32769,
                                 65536, 70001, 131072, 262143, 1100000};
  return kCounts[random() % std::size(kCounts)];
}

// How much each rank gives to each: the same on all.
using Matrix = std::vector<std::vector<int64_t>>;

// The fixed properties of an operation.
struct Shape {
  uint16_t kind;
  bool per_rank;
  int64_t count;  // elements of every piece
};

// An operation of the seed, the same on all ranks but for where buffers lie.
// 0, or what was wrong.
int one_operation(const End& end, uint64_t seed, uint64_t seq,
                  const Shape* shape = nullptr) {
  std::mt19937_64 random(seed);
  const auto n = static_cast<size_t>(end.size);
  const auto me = static_cast<size_t>(end.rank);
  const uint16_t drawn = kKinds[random() % std::size(kKinds)];
  const uint16_t kind = shape != nullptr ? shape->kind : drawn;
  const bool rooted =
      kind == DW_OP_BROADCAST || kind == DW_OP_GATHER || kind == DW_OP_SCATTER;
  const size_t root = random() % n;
  const bool per_rank =
      kind != DW_OP_BROADCAST &&
      (shape != nullptr ? shape->per_rank : random() % 2 == 0);
  const bool in_place = random() % 3 == 0;
  const auto next_count = [&] {
    return shape != nullptr ? shape->count : random_count(random);
  };
  const int64_t equal = next_count();
  Matrix gives(n, std::vector<int64_t>(n, equal));
  for (size_t from = 0; from < n; ++from)
    for (size_t to = 0; to < n; ++to)
      if (per_rank) gives[from][to] = next_count();
  if (kind == DW_OP_ALL_GATHER)
    for (auto& row : gives) row.assign(n, row[0]);
  std::mt19937_64 places(seed * 64 + me);
  std::vector<int64_t> sends, takes;
  std::vector<size_t> sources, targets;
  for (size_t r = 0; r < n; ++r) {
    const bool gives_to = kind == DW_OP_ALL_TO_ALL ||
                          (kind == DW_OP_SCATTER && me == root) ||
                          ((kind == DW_OP_GATHER || kind == DW_OP_BROADCAST) &&
                           r == root && (kind == DW_OP_GATHER || me == root)) ||
                          (kind == DW_OP_ALL_GATHER && r == me);
    const bool takes_from =
        kind == DW_OP_ALL_TO_ALL || kind == DW_OP_ALL_GATHER ||
        (kind == DW_OP_GATHER && me == root) ||
        ((kind == DW_OP_SCATTER || kind == DW_OP_BROADCAST) && r == root);
    if (gives_to) {
      sends.push_back(gives[me][r]);
      targets.push_back(r);
    }
    if (takes_from) {
      takes.push_back(gives[r][me]);
      sources.push_back(r);
    }
  }
  Buffer in(sends, places() % 65), out(takes, places() % 65);
  // One piece for all.
  const auto to_of = [&](size_t to) {
    return kind == DW_OP_ALL_GATHER || kind == DW_OP_BROADCAST
               ? 0
               : static_cast<int>(to);
  };
  for (size_t i = 0; i < targets.size(); ++i)
    for (size_t b = 0; b < static_cast<size_t>(sends[i]); ++b)
      in.piece(i)[b] = value(end.rank, to_of(targets[i]), b);
  const std::vector<unsigned char> in_before = in.bytes;

  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.flags = DW_FLAG_CALLER_WAITS | (per_rank ? DW_FLAG_PER_RANK : 0u);
  op.peer = rooted ? static_cast<int32_t>(root) : -1;
  const bool lists_in =
      per_rank && (kind == DW_OP_ALL_TO_ALL || kind == DW_OP_SCATTER);
  const bool lists_out = per_rank && !(kind == DW_OP_SCATTER);
  if (!sends.empty()) op.in = in.view(lists_in);
  if (!takes.empty()) op.out = out.view(lists_out);
  // The data of this rank for itself are already in place.
  const auto own = std::find(sources.begin(), sources.end(), me);
  if (in_place && own != sources.end() && sends.size() == 1) {
    unsigned char* const there =
        out.piece(static_cast<size_t>(own - sources.begin()));
    std::copy_n(in.base, in.total, there);
    op.in.data = there;
  }
  op.seq = seq;
  op.timeout_ns = 60'000'000'000;
  dw_error error = {};
  const int32_t code = end.api.submit(end.comm, &op, nullptr, &error);
  if (code != DW_DONE) return 1;
  if (in.bytes != in_before || !in.guarded()) return 2;
  if (!out.guarded()) return 3;
  for (size_t i = 0; i < sources.size(); ++i)
    for (size_t b = 0; b < static_cast<size_t>(takes[i]); ++b)
      if (out.piece(i)[b] != value(static_cast<int>(sources[i]), to_of(me), b))
        return 4;
  return 0;
}

// 0, or the seed and what was wrong.
int operations(const End& end, uint64_t first) {
  give_processors(end.comm);
  for (uint64_t seq = 1; seq <= 60; ++seq)
    if (const int wrong = one_operation(end, first + seq, seq))
      return static_cast<int>(seq) * 10 + wrong;
  return 0;
}

End end_of(conformance::Member& member, int size) {
  return {member.api, member.comm, member.rank, size};
}
End end_of(Rank& rank) { return {rank.api, rank.comm, rank.rank, rank.size}; }

void meet(Rank& rank, int word) {
  rank.words[word].fetch_add(1);
  while (rank.words[word].load() < rank.size) sched_yield();
}

class Straight : public testing::TestWithParam<int> {};

TEST_P(Straight, ThreadsMoveEverything) {
  const int size = GetParam();
  run_threads(size, [size](conformance::Member& member) {
    const End end = end_of(member, size);
    EXPECT_EQ(operations(end, 1000), 0) << "rank " << end.rank;
    EXPECT_TRUE(inside(end)->straight) << "nothing went straight";
  });
}

// With thresholds at their ends.
TEST_P(Straight, ThreadsMoveEverythingWhateverTheTuning) {
  const int size = GetParam();
  for (const uint64_t bytes :
       {shm_backend::Tuning::kLeast, shm_backend::Tuning::kMost})
    run_threads(size, [size, bytes](conformance::Member& member) {
      const End end = end_of(member, size);
      shm_backend::Tuning& tuning = inside(end)->tuning;
#define SHM_TUNING(name, usual, what, way) tuning.name = bytes;
#include "tuning.def"
      EXPECT_EQ(operations(end, 3000), 0) << "rank " << end.rank;
    });
}

// Nobody waits for more than who has to read what it shows.
TEST(Staged, PiecesLargerThanAllStaging) {
  constexpr int kSize = 3;
  run_threads(kSize, [](conformance::Member& member) {
    const End end = end_of(member, kSize);
    shm_backend::Comm& comm = *inside(end);
    uint64_t seq = 1;
    const Shape first = {DW_OP_BROADCAST, false, 4096};
    ASSERT_EQ(one_operation(end, 1, seq, &first), 0);
    comm.straight = false;
    const auto count = static_cast<int64_t>(comm.stage.limit) + 200'000;
    for (const uint16_t kind : kKinds)
      for (const bool per_rank : {false, true}) {
        const Shape shape = {kind, per_rank, count};
        ++seq;
        ASSERT_EQ(one_operation(end, seq, seq, &shape), 0)
            << "rank " << end.rank << ", operation " << kind << per_rank;
      }
  });
}

TEST(Staged, RanksThatShareProcessorsTryNothingElse) {
  run_threads(3, [](conformance::Member& member) {
    shm_backend::Comm& comm = *shm_backend::of(member.comm);
    for (const uint16_t kind : kKinds) {
      shm_backend::EngineOp call;
      call.kind = kind;
      comm.oversubscribed = true;
      EXPECT_EQ(shm_backend::tried_from(comm, call), SIZE_MAX) << kind;
      comm.oversubscribed = false;
      EXPECT_LT(shm_backend::tried_from(comm, call), SIZE_MAX) << kind;
    }
  });
}

TEST_P(Straight, ProcessesMoveEverything) {
  const int size = GetParam();
  ProcessRanks ranks(size, [](Rank& rank) {
    const int wrong = operations(end_of(rank), 5000);
    if (wrong != 0) std::fprintf(stderr, "seq, what: %d\n", wrong);
    meet(rank, 0);
    if (wrong != 0) return wrong % 10;
    return inside(end_of(rank))->straight ? 0 : 9;
  });
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(ranks.wait(rank), 0) << rank;
}

// One unreachable rank is enough: all ranks use the other method.
TEST_P(Straight, WhereMemoryOfOneCannotBeReached) {
  const int size = GetParam();
  for (const bool refuses : {true, false}) {
    ProcessRanks ranks(size, [refuses](Rank& rank) {
      shm_backend::Area& area = inside(end_of(rank))->room.mine();
      if (rank.rank == 1)
        refuses ? area.process.store(0) : (void)area.itself.fetch_add(8);
      meet(rank, 0);
      const int wrong = operations(end_of(rank), 9000);
      meet(rank, 1);
      if (wrong != 0) return wrong % 10;
      return inside(end_of(rank))->straight ? 9 : 0;
    });
    for (int rank = 0; rank < size; ++rank)
      EXPECT_EQ(ranks.wait(rank), 0) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Straight, testing::Values(2, 3, 4));

dw_op plain(uint16_t kind, Buffer& in, Buffer& out, uint64_t seq) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = kind;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.peer = kind == DW_OP_ALL_TO_ALL ? -1 : 0;
  op.in = in.view(false);
  op.out = out.view(false);
  op.seq = seq;
  op.timeout_ns = 60'000'000'000;
  return op;
}

// Once a rank has given up nobody writes to what it had shown.
TEST(StraightFailure, WhoComesLateFindsNobodyAndWritesNothing) {
  run_threads(2, [](conformance::Member& member) {
    give_processors(member.comm);
    Buffer in({300000}, 0), out({300000}, 0);
    dw_op op = plain(DW_OP_BROADCAST, in, out, 1);
    dw_error error = {};
    ASSERT_EQ(member.api.submit(member.comm, &op, nullptr, &error), DW_DONE);
    std::fill(out.bytes.begin(), out.bytes.end(), kUntouched);
    op.seq = 2;
    if (member.rank == 1) {
      op.timeout_ns = 5'000'000;
      EXPECT_EQ(member.api.submit(member.comm, &op, nullptr, &error),
                DW_DEADLINE_EXCEEDED);
    }
    member.meeting.meet();
    std::fill(in.bytes.begin(), in.bytes.end(), 1);
    if (member.rank == 0) {
      EXPECT_EQ(member.api.submit(member.comm, &op, nullptr, &error),
                DW_UNAVAILABLE);
      EXPECT_EQ(error.peer, 1);
    }
    member.meeting.meet();
    if (member.rank != 1) return;
    EXPECT_EQ(out.bytes,
              std::vector<unsigned char>(out.bytes.size(), kUntouched));
  });
}

// A write that the kernel may be at is waited for, but not for ever.
TEST(StraightFailure, AWriteThatDoesNotEndIsNotWaitedForLong) {
  run_threads(2, [](conformance::Member& member) {
    give_processors(member.comm);
    Buffer in({300000}, 0), out({300000}, 0);
    dw_op op = plain(DW_OP_BROADCAST, in, out, 1);
    dw_error error = {};
    ASSERT_EQ(member.api.submit(member.comm, &op, nullptr, &error), DW_DONE);
    member.meeting.meet();
    if (member.rank == 1) {
      const shm_backend::Room& room = shm_backend::of(member.comm)->room;
      room.lane(0, 1).length.store(4096);
      op.seq = 2;
      op.timeout_ns = 5'000'000;
      const int64_t began = conformance::now_ns();
      EXPECT_EQ(member.api.submit(member.comm, &op, nullptr, &error),
                DW_DEADLINE_EXCEEDED);
      EXPECT_GE(conformance::now_ns() - began, 50'000'000);
      // The kernel does not read the length that is there now.
      EXPECT_EQ(room.lane(0, 1).length.load(), shm_backend::kNoMore);
    }
    member.meeting.meet();
  });
}

TEST(StraightFailure, AnAddressWithoutItsSealIsNotUsed) {
  run_threads(2, [](conformance::Member& member) {
    give_processors(member.comm);
    Buffer in({300000}, 0), out({300000}, 0);
    dw_op op = plain(DW_OP_BROADCAST, in, out, 1);
    dw_error error = {};
    ASSERT_EQ(member.api.submit(member.comm, &op, nullptr, &error), DW_DONE);
    // Rank 1 shows places as one would that has another key.
    if (member.rank == 1) ++shm_backend::of(member.comm)->keys[1];
    op.seq = 2;
    op.timeout_ns = 2'000'000'000;
    const int32_t code = member.api.submit(member.comm, &op, nullptr, &error);
    if (member.rank == 0) {
      EXPECT_EQ(code, DW_INTERNAL) << error.text;
      EXPECT_EQ(error.peer, 1);
    } else if (code != DW_DONE) {  // the rank may have read everything before
      EXPECT_EQ(code, DW_UNAVAILABLE) << error.text;
    }
    member.meeting.meet();
  });
}

void kill_one(uint16_t kind, int victim, int moment) {
  expect_killed_is_named(victim, moment, [kind](Rank& rank) {
    give_processors(rank.comm);
    const int64_t bytes = kind == DW_OP_BROADCAST ? 600000 : 200000 * rank.size;
    auto in = std::make_shared<Buffer>(std::vector<int64_t>{bytes}, 0);
    auto out = std::make_shared<Buffer>(in->counts, 0);
    return [&rank, kind, in, out](uint64_t seq, dw_error* error) {
      const dw_op op = plain(kind, *in, *out, seq);
      return rank.api.submit(rank.comm, &op, nullptr, error);
    };
  });
}

TEST(StraightFailure, AKilledPeerIsNamed) {
  for (int moment = 0; moment < 12; ++moment)
    kill_one(moment % 2 == 0 ? DW_OP_BROADCAST : DW_OP_ALL_TO_ALL, moment % 3,
             moment);
}

}  // namespace
}  // namespace distwrap::shm_test
