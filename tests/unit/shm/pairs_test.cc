// Operations of which only pairs of ranks know sizes, which differ from call to
// call: what they give, and what is told when a pair differs or counts are
// wrong.
#include "pairs.h"

#include "backend.h"
#include "host.h"
#include "sdk/moe_rows.h"
#include "thread_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace distwrap::shm_test {
namespace {

constexpr uint8_t kUntouched = 0xee;
using Counts = std::vector<int64_t>;

uint8_t value(int from, int to, uint64_t seq, size_t i) {
  return static_cast<uint8_t>(static_cast<size_t>(from) * 31 +
                              static_cast<size_t>(to) * 17 + seq * 7 + i +
                              i / 64);
}

// A buffer of a piece for each rank, in their order or in the other, with a gap
// between.
struct Divided {
  Divided(Counts given, bool placed)
      : counts(std::move(given)), displs(counts.size()) {
    constexpr int64_t kGap = 3;
    int64_t at = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const size_t r = placed ? counts.size() - 1 - i : i;
      displs[r] = at;
      at += counts[r] + (placed ? kGap : 0);
    }
    bytes.assign(static_cast<size_t>(at) + 1, kUntouched);
    if (placed) view.displs = displs.data();
    view.data = bytes.data();
    view.count = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    view.counts = counts.data();
    view.dtype = {1, 8, 1};
  }
  Counts counts, displs;
  std::vector<uint8_t> bytes;
  dw_buf view = {};
};

dw_op all_to_all(const Divided& in, const Divided& out, uint64_t seq) {
  dw_op op = {};
  op.struct_size = sizeof op;
  op.kind = DW_OP_ALL_TO_ALL;
  op.flags = DW_FLAG_CALLER_WAITS | DW_FLAG_PER_RANK;
  op.peer = -1;
  op.in = in.view;
  op.out = out.view;
  op.seq = seq;
  op.timeout_ns = 60'000'000'000;
  return op;
}

// The elements that each rank gives to each, equal on all ranks.
using Matrix = std::vector<Counts>;

// The first mistake, or null.
const char* exchange(conformance::Member& member, const Matrix& gives,
                     uint64_t seq, bool placed) {
  const auto me = static_cast<size_t>(member.rank);
  Counts takes;
  for (const Counts& row : gives) takes.push_back(row[me]);
  Divided in(gives[me], placed), out(takes, placed);
  for (size_t to = 0; to < gives.size(); ++to)
    for (size_t i = 0; i < static_cast<size_t>(gives[me][to]); ++i)
      in.bytes[static_cast<size_t>(in.displs[to]) + i] =
          value(member.rank, static_cast<int>(to), seq, i);
  std::vector<uint8_t> expected = out.bytes;
  for (size_t from = 0; from < gives.size(); ++from)
    for (size_t i = 0; i < static_cast<size_t>(takes[from]); ++i)
      expected[static_cast<size_t>(out.displs[from]) + i] =
          value(static_cast<int>(from), member.rank, seq, i);
  const std::vector<uint8_t> before = in.bytes;
  const dw_op op = all_to_all(in, out, seq);
  dw_error error = {};
  if (member.api.submit(member.comm, &op, nullptr, &error) != DW_DONE)
    return "refused";
  if (in.bytes != before) return "input changed";
  return out.bytes == expected ? nullptr : "wrong";
}

class Pairs : public testing::TestWithParam<int> {};

// On both sides of every size where the way changes, with ranks that are late:
// what they then find was shown on the short way.
TEST_P(Pairs, GiveWhatTheyShould) {
  const int size = GetParam();
  constexpr int64_t kCounts[] = {
      0,    1,    8,    31,   32,    33,    64,     500,    2730,  5000,
      8191, 8192, 8193, 9000, 16384, 40000, 131072, 131073, 300000};
  run_threads(size, [size, &kCounts](conformance::Member& member) {
    std::mt19937 random(11);  // equal on all ranks
    const auto n = static_cast<size_t>(size);
    for (uint64_t seq = 1; seq <= 400; ++seq) {
      // Ranks that share processors, if these do, and ranks that do not.
      if (seq == 200) shm_backend::of(member.comm)->oversubscribed = false;
      // Mostly short ones: those go the short way only among themselves.
      const size_t most = random() % 4 != 0 ? 10 : std::size(kCounts);
      Matrix gives(n, Counts(n));
      for (Counts& row : gives)
        for (int64_t& count : row) count = kCounts[random() % most];
      const bool placed = random() % 4 == 0;
      const size_t late = random() % (6 * n);
      if (late == static_cast<size_t>(member.rank))
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      ASSERT_EQ(exchange(member, gives, seq, placed), nullptr)
          << "call " << seq << ", rank " << member.rank;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Pairs, testing::Values(1, 2, 3, 5));

// One pair has more to move through staging than that holds, so its ranks wait
// for the third, which waits for one of them to move a piece straight.
TEST(PairsOfThree, WhoMovesStraightHoldsUpNobodyWhoStages) {
  run_threads(3, [](conformance::Member& member) {
    shm_backend::Comm& comm = *shm_backend::of(member.comm);
    comm.oversubscribed = false;  // otherwise nothing is transferred directly
    Matrix gives(3, Counts(3, 1));
    ASSERT_EQ(exchange(member, gives, 1, false), nullptr);
    ASSERT_TRUE(comm.straight);
    const auto staged = static_cast<int64_t>(comm.stage.limit) + 300'000;
    gives[0][1] = gives[1][0] = staged;
    gives[1][2] = gives[2][1] = 200'000;
    for (uint64_t seq = 2; seq < 60; ++seq) {
      const auto prefer = [&](int from, uint64_t which) {
        comm.room.lane(from, member.rank).prefers.store(which);
      };
      for (int from = 0; from < 3; ++from)
        if (from != member.rank)
          prefer(from, from + member.rank == 1 ? 0 : ~uint64_t{0});
      ASSERT_EQ(exchange(member, gives, seq, false), nullptr)
          << "call " << seq << ", rank " << member.rank;
    }
  });
}

// Through the rounds of one piece, and then straight for the other, would be
// the slowest.
TEST(PairsOfTwo, GoTheWayOfTheLargerPiece) {
  constexpr int64_t kSmall = 100000, kLarge = 300000;
  struct Case {
    int64_t gives[2];
    bool straight;
  };
  // The first would rather take pieces straight, the second would not.
  constexpr Case kCases[] = {{{kSmall, kLarge}, true},
                             {{kLarge, kSmall}, false},
                             {{kLarge, kLarge}, true}};
  run_threads(2, [&](conformance::Member& member) {
    shm_backend::Comm& comm = *shm_backend::of(member.comm);
    comm.oversubscribed = false;
    auto& pair = comm.pairs[static_cast<size_t>(1 - member.rank)];
    for (const int64_t bytes : {kSmall, kLarge})
      pair.takes.took(static_cast<size_t>(bytes), member.rank == 0, 1);
    for (uint64_t seq = 1; seq <= 60; ++seq) {
      const Case& one = kCases[seq % 3];
      ASSERT_EQ(
          exchange(member, {{0, one.gives[0]}, {one.gives[1], 0}}, seq, false),
          nullptr);
      EXPECT_EQ(pair.gives_straight, pair.takes_straight) << "call " << seq;
      // As long as both ways are tried nobody chooses.
      const bool chosen = seq > 48;
      EXPECT_TRUE(!chosen || pair.takes_straight == one.straight)
          << "call " << seq;
    }
  });
}

TEST(PairsThatDiffer, AreToldOnBothSides) {
  struct Case {
    int64_t gives, expected;
  };
  for (const Case one : {Case{8, 16}, Case{0, 8}, Case{8, 0}, Case{8, 100},
                         Case{100, 101}, Case{9000, 9001}, Case{9000, 8},
                         Case{8, 300'000}, Case{300'000, 300'001}})
    run_threads(2, [one](conformance::Member& member) {
      for (uint64_t seq = 1; seq <= 4; ++seq)
        ASSERT_EQ(exchange(member, {{4, 5}, {6, 7}}, seq, false), nullptr);
      const bool giver = member.rank == 0;
      const Divided in(giver ? Counts{1, one.gives} : Counts{3, 1}, false);
      Divided out(giver ? Counts{1, 3} : Counts{one.expected, 1}, false);
      const std::vector<uint8_t> before = out.bytes;
      const dw_op op = all_to_all(in, out, 5);
      dw_error error = {};
      EXPECT_EQ(member.api.submit(member.comm, &op, nullptr, &error),
                DW_FAILED_PRECONDITION);
      EXPECT_EQ(error.reason, DW_REASON_CALL_MISMATCH) << error.text;
      EXPECT_EQ(error.peer, 1 - member.rank);
      if (giver) return;
      for (size_t i = 0; i < static_cast<size_t>(one.expected); ++i)
        ASSERT_EQ(out.bytes[i], before[i]) << "a byte has been delivered";
    });
}

// Calls like the last one are not read as a whole; their counts are.
TEST(PairsWithWrongCounts, AreRefusedAndLeaveNothingBehind) {
  run_threads(2, [](conformance::Member& member) {
    const Matrix good = {{4, 5}, {6, 7}};
    uint64_t seq = 0;
    ASSERT_EQ(exchange(member, good, ++seq, false), nullptr);
    const auto me = static_cast<size_t>(member.rank);
    const auto refuse = [&](const char* what, auto&& change) {
      ASSERT_EQ(exchange(member, good, ++seq, false), nullptr) << what;
      Divided in(good[me], true), out({good[0][me], good[1][me]}, true);
      dw_op op = all_to_all(in, out, seq + 1);
      change(op, in, out);
      dw_error error = {};
      EXPECT_EQ(member.api.submit(member.comm, &op, nullptr, &error),
                DW_INVALID_ARGUMENT)
          << what;
    };
    refuse("a negative count",
           [](dw_op&, Divided& in, Divided&) { in.counts[0] = -1; });
    refuse("more than the buffer has",
           [](dw_op&, Divided& in, Divided&) { in.counts[1] += 1; });
    refuse("less than the buffer has",
           [](dw_op&, Divided&, Divided& out) { out.counts[1] -= 1; });
    refuse("a negative place",
           [](dw_op&, Divided&, Divided& out) { out.displs[0] = -1; });
    refuse("more elements than there are",
           [](dw_op& op, Divided& in, Divided&) {
             in.counts[0] = in.counts[1] = INT64_MAX / 64;
             op.in.count = INT64_MAX / 32;
           });
    refuse("an own piece of two sizes", [me](dw_op& op, Divided& in, Divided&) {
      in.counts[me] += 1;
      op.in.count += 1;
    });
    ASSERT_EQ(exchange(member, good, ++seq, false), nullptr);
  });
}

// Rows of 4 bytes, as many for and from each rank as the counts say.
struct Rows {
  Rows(const Divided& in, const Divided& out)
      : op(all_to_all(in, out, 1)),
        give_first(first_of(in)),
        get_first(first_of(out)) {
    channel = {in.bytes.data(), const_cast<uint8_t*>(out.bytes.data()), 4,
               nullptr};
    lists.head = {sizeof lists, DW_EXT_REQUIRED, dw_sdk::kMoeId, nullptr};
    lists.channels = &channel;
    lists.n_channels = 1;
    lists.give_first = give_first.data();
    lists.get_first = get_first.data();
    op.in.data = op.out.data = nullptr;
    op.next = &lists.head;
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  static Counts first_of(const Divided& divided) {
    Counts first;
    for (const int64_t at : divided.displs) first.push_back(at / 4);
    return first;
  }
  dw_op op;
  Counts give_first, get_first;
  dw_moe_channel channel;
  dw_ext_moe lists = {};
};

TEST(RowsOfPairs, AreMovedByTheEngineItself) {
  run_threads(2, [](conformance::Member& member) {
    const Divided in({4, 8}, false), out({4, 8}, false);
    const Rows rows(in, out);
    EXPECT_EQ(member.api.query(member.comm, &rows.op, nullptr), DW_OK);
  });
}

// Each row of both ranks fills two places, at any alignment: 34 MB of output,
// which no cache holds.
TEST(RowsOfPairs, FillPlacesThatOutgrowTheCaches) {
  constexpr uint64_t kRow = 131'009;
  constexpr int32_t kRows = 64;
  run_threads(2, [](conformance::Member& member) {
    const auto byte = [](int rank, uint64_t i) {
      return static_cast<uint8_t>(static_cast<uint64_t>(rank) * 91 + i % 251 +
                                  i / kRow);
    };
    std::vector<uint8_t> in(kRow * kRows), out(4 * kRow * kRows + 1, 7);
    for (uint64_t i = 0; i < in.size(); ++i) in[i] = byte(member.rank, i);
    std::vector<int32_t> give, place;
    Counts place_first;
    for (int32_t i = 0; i < 2 * kRows; ++i) {
      give.push_back(i % kRows);
      place_first.push_back(2 * i);
      place.push_back(4 * kRows - 1 - 2 * i);
      place.push_back(4 * kRows - 2 - 2 * i);
    }
    place_first.push_back(4 * kRows);
    constexpr auto kBytes = static_cast<int64_t>(kRow * kRows);
    Divided sizes({kBytes, kBytes}, false);
    Rows rows(sizes, sizes);
    rows.channel = {in.data(), out.data(), kRow, nullptr};
    rows.give_first = rows.get_first = {0, kRows};
    rows.lists.give_first = rows.give_first.data();
    rows.lists.get_first = rows.get_first.data();
    rows.lists.give = give.data();
    rows.lists.place_first = place_first.data();
    rows.lists.place = place.data();
    dw_error error = {};
    ASSERT_EQ(member.api.submit(member.comm, &rows.op, nullptr, &error),
              DW_DONE)
        << error.text;
    for (int32_t i = 0; i < 2 * kRows; ++i)
      for (int32_t j = 2 * i; j < 2 * i + 2; ++j)
        for (uint64_t b = 0; b < kRow; ++b)
          ASSERT_EQ(
              out[static_cast<uint64_t>(place[static_cast<size_t>(j)]) * kRow +
                  b],
              byte(i / kRows, static_cast<uint64_t>(i % kRows) * kRow + b))
              << "row " << i << ", byte " << b;
    EXPECT_EQ(out.back(), 7);
  });
}

// A difference is an error on both ranks, and delivers no byte: in rows that
// fit a cell, one staged piece, or several rounds; or against a call without
// rows.
TEST(RowsOfPairs, AreToldWhereTheyDiffer) {
  struct Case {
    int64_t gives, expected;
    bool plain;
  };
  for (const Case one :
       {Case{8, 16, false}, Case{0, 8, false}, Case{100, 104, false},
        Case{300'000, 300'004, false}, Case{8, 8, true}})
    run_threads(2, [one](conformance::Member& member) {
      const bool giver = member.rank == 0;
      const Divided in(giver ? Counts{4, one.gives} : Counts{0, 4}, false),
          out(giver ? Counts{4, 0} : Counts{one.expected, 4}, false);
      const std::vector<uint8_t> before = out.bytes;
      const Rows rows(in, out);
      const dw_op op = giver && one.plain ? all_to_all(in, out, 1) : rows.op;
      dw_error error = {};
      EXPECT_EQ(member.api.submit(member.comm, &op, nullptr, &error),
                DW_FAILED_PRECONDITION);
      EXPECT_EQ(error.reason, DW_REASON_CALL_MISMATCH) << error.text;
      EXPECT_EQ(error.peer, 1 - member.rank);
      for (size_t i = 0; !giver && i < static_cast<size_t>(one.expected); ++i)
        ASSERT_EQ(out.bytes[i], before[i]) << "a byte has been delivered";
    });
}

}  // namespace
}  // namespace distwrap::shm_test
