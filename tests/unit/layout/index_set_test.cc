#include "layout/index_set.h"

#include <gtest/gtest.h>

#include <vector>

namespace distwrap::layout {
namespace {

std::vector<int64_t> listed(const IndexSet& set) {
  std::vector<int64_t> all;
  for (const Interval& one : set.intervals())
    for (int64_t i = one.begin; i < one.end; ++i) all.push_back(i);
  EXPECT_EQ(static_cast<int64_t>(all.size()), set.count());
  return all;
}

// The rule of docs/layouts.md on plain lists.
std::vector<int64_t> cut_list(const std::vector<int64_t>& list, int64_t parts,
                              int64_t n, int64_t i) {
  const auto chunk = [](const std::vector<int64_t>& of, int64_t count,
                        int64_t which) {
    const int64_t length = static_cast<int64_t>(of.size());
    const int64_t size = (length + count - 1) / count;
    const int64_t begin = std::min(length, size * which);
    const int64_t end = std::min(length, size * (which + 1));
    return std::vector<int64_t>(of.begin() + begin, of.begin() + end);
  };
  std::vector<int64_t> kept;
  for (int64_t part = 0; part < parts; ++part)
    for (const int64_t one : chunk(chunk(list, parts, part), n, i))
      kept.push_back(one);
  return kept;
}

TEST(IndexSet, CutsAsTheRuleSays) {
  for (int64_t size = 0; size <= 14; ++size)
    for (int64_t parts = 1; parts <= 5; ++parts)
      for (int64_t n = 1; n <= 5; ++n)
        for (int64_t i = 0; i < n; ++i) {
          const IndexSet all = IndexSet::all(size);
          const IndexSet once = all.cut(parts, n, i);
          ASSERT_EQ(listed(once), cut_list(listed(all), parts, n, i))
              << size << " " << parts << " " << n << " " << i;
          for (int64_t j = 0; j < 3; ++j)
            ASSERT_EQ(listed(once.cut(2, 3, j)),
                      cut_list(listed(once), 2, 3, j));
        }
}

TEST(IndexSet, IntersectsAsSetsDo) {
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 4; ++j) {
      const IndexSet a = IndexSet::all(23).cut(3, 3, i);
      const IndexSet b = IndexSet::all(23).cut(2, 4, j);
      std::vector<int64_t> both;
      for (const int64_t one : listed(a))
        for (const int64_t other : listed(b))
          if (one == other) both.push_back(one);
      EXPECT_EQ(listed(intersection(a, b)), both);
      EXPECT_EQ(common(a, b), static_cast<int64_t>(both.size()));
    }
}

TEST(IndexSet, HugeNumbersDoNotOverflow) {
  const IndexSet all = IndexSet::all(INT64_MAX);
  EXPECT_EQ(all.cut(1, 2, 0).count(), INT64_MAX / 2 + 1);
  EXPECT_EQ(all.cut(1, INT64_MAX, INT64_MAX - 1).count(), 1);
  EXPECT_EQ(IndexSet::all(1).cut(65536, 7, 6).count(), 0);
}

}  // namespace
}  // namespace distwrap::layout
