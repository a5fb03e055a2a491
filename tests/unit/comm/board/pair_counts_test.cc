#include "comm/board/pair_counts.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace distwrap::comm {
namespace {

using Matrix = std::vector<std::vector<int64_t>>;  // [from][to]

Matrix random_counts(int n, std::mt19937_64& random) {
  Matrix counts(static_cast<size_t>(n));
  for (auto& row : counts)
    for (int to = 0; to < n; ++to)
      row.push_back(random() % 3 == 0 ? 0
                                      : static_cast<int64_t>(random() >> 40));
  return counts;
}

// The arguments of each rank of a call, with the counts that are really sent
// and those that are expected.
struct Call {
  Call(uint16_t kind, int root, uint64_t seq, const Matrix& sent,
       const Matrix& expected)
      : in(sent), out(expected.size()) {
    const auto n = sent.size(), r = static_cast<size_t>(root);
    for (size_t rank = 0; rank < n; ++rank) {
      for (size_t from = 0; from < n; ++from)
        out[rank].push_back(expected[from][rank]);
      dw_op op = {};
      op.kind = kind;
      op.flags = DW_FLAG_PER_RANK;
      op.seq = seq;
      op.peer = root;
      if (kind != DW_OP_GATHER && (kind == DW_OP_ALL_TO_ALL || rank == r))
        op.in.counts = in[rank].data();
      if (kind != DW_OP_SCATTER && (kind == DW_OP_ALL_TO_ALL || rank == r))
        op.out.counts = out[rank].data();
      if (kind == DW_OP_GATHER) op.in.count = sent[rank][r];
      if (kind == DW_OP_SCATTER) op.out.count = expected[r][rank];
      ops.push_back(op);
    }
  }
  uint64_t balance() const {
    const auto shown = std::make_unique<ShownCounts>();
    uint64_t sum = 0;
    for (size_t rank = 0; rank < ops.size(); ++rank)
      sum += PairCounts(ops[rank], static_cast<int>(rank),
                        static_cast<int>(ops.size()))
                 .show(shown.get());
    return sum;
  }
  Matrix in, out;
  std::vector<dw_op> ops;
};

constexpr uint16_t kKinds[] = {DW_OP_ALL_TO_ALL, DW_OP_GATHER, DW_OP_SCATTER};

TEST(PairCounts, BalanceWhenAllPairsAgreeAndElseNot) {
  std::mt19937_64 random(1);
  for (int n = 2; n <= 9; ++n)
    for (const uint16_t kind : kKinds)
      for (int times = 0; times < 50; ++times) {
        const uint64_t seq = random();
        const int root = static_cast<int>(random() % static_cast<size_t>(n));
        const Matrix sent = random_counts(n, random);
        EXPECT_EQ(Call(kind, root, seq, sent, sent).balance(), 0u);
        Matrix other = sent;
        auto from = random() % static_cast<size_t>(n);
        auto to = (from + 1 + random() % static_cast<size_t>(n - 1)) %
                  static_cast<size_t>(n);
        // Only the root's part of the others is used.
        if (kind == DW_OP_GATHER && static_cast<int>(from) != root)
          to = static_cast<size_t>(root);
        if (kind == DW_OP_GATHER && static_cast<int>(from) == root)
          std::swap(from, to);
        if (kind == DW_OP_SCATTER) {
          if (static_cast<int>(to) == root) std::swap(from, to);
          from = static_cast<size_t>(root);
        }
        other[from][to] += 1 + static_cast<int64_t>(random() % 5);
        EXPECT_NE(Call(kind, root, seq, sent, other).balance(), 0u)
            << n << " ranks, kind " << kind << ", " << from << " to " << to;
      }
}

// Two that exchange their counts, or give another the same, do not cancel out.
TEST(PairCounts, SwappedOrMovedCountsDoNotBalance) {
  const Matrix sent = {{0, 5, 7}, {7, 0, 5}, {5, 7, 0}};
  const Matrix transposed = {{0, 7, 5}, {5, 0, 7}, {7, 5, 0}};
  const Matrix moved = {{0, 7, 5}, {7, 0, 5}, {5, 7, 0}};
  EXPECT_NE(Call(DW_OP_ALL_TO_ALL, -1, 1, sent, transposed).balance(), 0u);
  EXPECT_NE(Call(DW_OP_ALL_TO_ALL, -1, 1, sent, moved).balance(), 0u);
}

TEST(PairCounts, AreOfTheFormsInWhichPairsHaveTheirOwn) {
  dw_op op = {};
  op.kind = DW_OP_ALL_TO_ALL;
  EXPECT_FALSE(PairCounts::are_in(op));
  op.flags = DW_FLAG_PER_RANK;
  EXPECT_TRUE(PairCounts::are_in(op));
  op.kind = DW_OP_ALL_GATHER;
  EXPECT_FALSE(PairCounts::are_in(op));
}

TEST(PairCounts, AreShownAsLongAsThereIsRoom) {
  for (const int n : {2, 5, 64, 127, 128}) {
    const auto shown = std::make_unique<ShownCounts>();
    Matrix sent(static_cast<size_t>(n),
                std::vector<int64_t>(static_cast<size_t>(n), 3));
    sent[1][0] = int64_t{1} << 40;
    sent[0][1] = 9;
    constexpr uint64_t kNumber = (uint64_t{1} << 33) + 12;
    const Call call(DW_OP_ALL_TO_ALL, -1, kNumber, sent, sent);
    PairCounts(call.ops[1], 1, n).show(shown.get());
    const auto pair = ShownPair::read(*shown, n, kNumber, 0);
    ASSERT_EQ(pair.has_value(), n < 128) << n;
    if (!pair.has_value()) continue;
    EXPECT_EQ(pair->sends, ShownPair::kMost);
    EXPECT_EQ(pair->expects, 9u);
    EXPECT_EQ(ShownPair::read(*shown, n, kNumber, 1)->sends, 0u);
    EXPECT_FALSE(ShownPair::read(*shown, n, kNumber + 1, 0).has_value());
    // Once the ring has gone round.
    for (uint64_t later = 1; later <= 64; ++later)
      PairCounts(Call(DW_OP_ALL_TO_ALL, -1, kNumber + later, sent, sent).ops[1],
                 1, n)
          .show(shown.get());
    EXPECT_FALSE(ShownPair::read(*shown, n, kNumber, 0).has_value());
  }
}

}  // namespace
}  // namespace distwrap::comm
