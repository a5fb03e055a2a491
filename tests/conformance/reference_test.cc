// Tests of the reference and its data, by hand and by the mistakes that the
// data reveal.
#include "reference.h"

#include "covering.h"
#include "data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

namespace distwrap::conformance {
namespace {

Number whole(__int128 number) { return {number, 0}; }
Number real(long double number) { return {0, number}; }

uint16_t word(int dtype, long double number) {
  char bytes[2];
  store(dtype, real(number), bytes);
  uint16_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

int64_t reduced_whole(int dtype, uint16_t reduce, std::vector<Number> in) {
  char bytes[8];
  store(dtype, reduced(dtype, reduce, in, {}), bytes);
  return static_cast<int64_t>(load(dtype, bytes).whole);
}

TEST(Numbers, RoundHalfFloats) {
  EXPECT_EQ(word(DW_DTYPE_F16, 1), 0x3c00);
  EXPECT_EQ(word(DW_DTYPE_F16, -2), 0xc000);
  EXPECT_EQ(word(DW_DTYPE_F16, 65504), 0x7bff);
  EXPECT_EQ(word(DW_DTYPE_F16, 65519), 0x7bff);
  EXPECT_EQ(word(DW_DTYPE_F16, 65520), 0x7c00);
  EXPECT_EQ(word(DW_DTYPE_F16, 2049), 0x6800);  // tie to even
  EXPECT_EQ(word(DW_DTYPE_F16, 2051), 0x6802);
  EXPECT_EQ(word(DW_DTYPE_F16, std::ldexp(1.0L, -24)), 0x0001);
  EXPECT_EQ(word(DW_DTYPE_F16, std::ldexp(1.0L, -25)), 0x0000);
  EXPECT_EQ(word(DW_DTYPE_F16, std::ldexp(3.0L, -25)), 0x0002);
  EXPECT_EQ(word(DW_DTYPE_F16, std::ldexp(1023.75L, -24)), 0x0400);
  EXPECT_EQ(word(DW_DTYPE_F16, -0.0L), 0x8000);
  EXPECT_EQ(word(DW_DTYPE_BF16, 1), 0x3f80);
  EXPECT_EQ(word(DW_DTYPE_BF16, 257), 0x4380);
  EXPECT_EQ(word(DW_DTYPE_BF16, 259), 0x4382);
  EXPECT_EQ(word(DW_DTYPE_BF16, std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Numbers, SixteenBitWordsComeBack) {
  for (const int dtype : {DW_DTYPE_F16, DW_DTYPE_BF16, DW_DTYPE_U16})
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const auto before = static_cast<uint16_t>(bits);
      char bytes[2];
      std::memcpy(bytes, &before, sizeof before);
      const Number number = load(dtype, bytes);
      if (std::isnan(number.real)) continue;
      store(dtype, number, bytes);
      uint16_t after;
      std::memcpy(&after, bytes, sizeof after);
      ASSERT_EQ(after, before);
    }
}

TEST(Reference, IntegersWrapAndAveragesTruncate) {
  const auto sum = [](int dtype, std::vector<Number> in) {
    return reduced_whole(dtype, DW_REDUCE_SUM, std::move(in));
  };
  EXPECT_EQ(sum(DW_DTYPE_U8, {whole(200), whole(100)}), 44);
  EXPECT_EQ(sum(DW_DTYPE_I8, {whole(100), whole(100)}), -56);
  EXPECT_EQ(sum(DW_DTYPE_BOOL, {whole(1), whole(1)}), 1);
  const auto avg = [](int dtype, std::vector<Number> in) {
    return reduced_whole(dtype, DW_REDUCE_AVG, std::move(in));
  };
  EXPECT_EQ(avg(DW_DTYPE_I32, {whole(-1), whole(-2)}), -1);
  EXPECT_EQ(avg(DW_DTYPE_I8, {whole(100), whole(100)}), -28);
  EXPECT_EQ(avg(DW_DTYPE_U8, {whole(200), whole(101)}), 22);
  EXPECT_EQ(reduced_whole(DW_DTYPE_U64, DW_REDUCE_PRODUCT,
                          {whole(INT64_MAX), whole(2), whole(3)}),
            -6);
  EXPECT_EQ(
      reduced_whole(DW_DTYPE_BOOL, DW_REDUCE_PRODUCT, {whole(1), whole(0)}), 0);
}

TEST(Reference, NanWinsAndFactorsAreEachRanksOwn) {
  const long double nan = std::numeric_limits<long double>::quiet_NaN();
  for (const uint16_t reduce : {DW_REDUCE_MIN, DW_REDUCE_MAX}) {
    EXPECT_TRUE(std::isnan(
        reduced(DW_DTYPE_F32, reduce, {real(1), real(nan), real(2)}, {}).real));
    EXPECT_TRUE(std::isnan(
        reduced(DW_DTYPE_F32, reduce, {real(nan), real(1)}, {}).real));
  }
  EXPECT_EQ(reduced(DW_DTYPE_F64, DW_REDUCE_PREMUL_SUM, {real(3), real(5)},
                    {real(2), real(-1)})
                .real,
            1);
}

TEST(Reference, OwnFloatsStayWithinABound) {
  const auto range = [](uint16_t reduce, std::vector<Number> in) {
    const std::vector<Number> factors(in.size(), real(1));
    return allowed(DW_DTYPE_F16, reduce, in, factors);
  };
  // The epsilon of f16 is 2^-10, and the sizes of the terms are 2048.
  for (const uint16_t reduce : {DW_REDUCE_SUM, DW_REDUCE_PREMUL_SUM}) {
    const Range sum = range(reduce, {real(1024), real(-1024)});
    EXPECT_EQ(sum.low, -4);
    EXPECT_EQ(sum.high, 4);
    EXPECT_TRUE(sum.has(0));
    EXPECT_FALSE(sum.has(4.5L));
    EXPECT_FALSE(sum.has(std::nanl("")));
  }
  EXPECT_EQ(range(DW_REDUCE_AVG, {real(1024), real(1024)}).high, 1026);
  EXPECT_EQ(range(DW_REDUCE_PRODUCT, {real(4), real(-256)}).low, -1026);
  const Range infinite = range(DW_REDUCE_SUM, {real(INFINITY), real(1)});
  EXPECT_TRUE(infinite.has(INFINITY));
  EXPECT_FALSE(infinite.has(65504));
}

TEST(Reference, OwnFloatsMayDropNan) {
  const Number nan = real(std::numeric_limits<long double>::quiet_NaN());
  const auto largest = [](std::vector<Number> in) {
    return allowed(DW_DTYPE_F32, DW_REDUCE_MAX, in, {});
  };
  const Range dropped = largest({real(1), nan, real(2)});
  EXPECT_TRUE(dropped.has(2));
  EXPECT_TRUE(dropped.has(nan.real));
  EXPECT_FALSE(dropped.has(1));
  EXPECT_FALSE(largest({real(1), real(2)}).has(nan.real));
  EXPECT_FALSE(largest({nan, nan}).has(0));
  EXPECT_TRUE(largest({nan, nan}).has(nan.real));
}

// The purpose of the data: the usual mistakes give other results.
TEST(Data, TellsApartRoundingAtEveryStep) {
  for (const int dtype : {DW_DTYPE_F16, DW_DTYPE_BF16}) {
    std::string stepwise = *values(dtype, DW_REDUCE_SUM, 0);
    for (int rank = 1; rank < 4; ++rank) {
      const Period next = values(dtype, DW_REDUCE_SUM, rank);
      const std::string before = stepwise;
      reduce_slowly(dtype, DW_REDUCE_SUM, {before.data(), next->data()}, {},
                    kPeriod, stepwise.data());
    }
    EXPECT_NE(stepwise, *reduced_values(dtype, DW_REDUCE_SUM, 4));
    // A backend with rules of its own may round so.
    const Ranges may = ranges(dtype, DW_REDUCE_SUM, 4);
    for (size_t i = 0; i < kPeriod; ++i)
      EXPECT_TRUE((*may)[i].has(load(dtype, stepwise.data() + 2 * i).real));
  }
}

TEST(Data, TellsApartFloorFromTruncation) {
  const Period sums = reduced_values(DW_DTYPE_I32, DW_REDUCE_SUM, 3);
  const Period averages = reduced_values(DW_DTYPE_I32, DW_REDUCE_AVG, 3);
  int differing = 0;
  for (size_t i = 0; i < kPeriod; ++i) {
    const auto sum =
        static_cast<int64_t>(load(DW_DTYPE_I32, sums->data() + 4 * i).whole);
    const auto average = static_cast<int64_t>(
        load(DW_DTYPE_I32, averages->data() + 4 * i).whole);
    EXPECT_EQ(average, sum / 3);
    const int64_t floor = sum < 0 ? -((2 - sum) / 3) : sum / 3;
    if (average != floor) ++differing;
  }
  EXPECT_GT(differing, 100);
}

TEST(Data, HasSpecialValuesWhereTheyMatter) {
  const auto count = [](uint16_t reduce, auto is_special) {
    const Period all = reduced_values(DW_DTYPE_F32, reduce, 2);
    int n = 0;
    for (size_t i = 0; i < kPeriod; ++i)
      n += is_special(load(DW_DTYPE_F32, all->data() + 4 * i).real) ? 1 : 0;
    return n;
  };
  const auto is_nan = [](long double x) { return std::isnan(x); };
  const auto is_infinite = [](long double x) { return std::isinf(x); };
  EXPECT_GT(count(DW_REDUCE_MIN, is_nan), 2);
  EXPECT_GT(count(DW_REDUCE_MAX, is_nan), 2);
  EXPECT_GT(count(DW_REDUCE_SUM, is_infinite), 2);
  EXPECT_EQ(count(DW_REDUCE_SUM, is_nan), 0);
}

TEST(Covering, EveryAllowedPairOccurs) {
  std::vector<Row> bound;
  for (int a = 0; a < 5; ++a)
    for (int b = 0; b < 4; ++b)
      for (int c = 0; c < 3; ++c)
        if ((a + b + c) % 4 != 0 && a * b != 6) bound.push_back({a, b, c});
  const std::vector<int> free = {2, 6};
  const std::vector<Row> rows = covering_rows(bound, free, 7);
  using Pair = std::tuple<size_t, int, size_t, int>;
  std::set<Pair> wanted, found;
  const auto add = [](const Row& row, std::set<Pair>& pairs) {
    for (size_t i = 0; i < row.size(); ++i)
      for (size_t k = i + 1; k < row.size(); ++k)
        pairs.insert({i, row[i], k, row[k]});
  };
  for (const Row& row : bound)
    for (int d = 0; d < free[0]; ++d)
      for (int e = 0; e < free[1]; ++e)
        add({row[0], row[1], row[2], d, e}, wanted);
  for (const Row& row : rows) {
    const Row head(row.begin(), row.begin() + 3);
    EXPECT_NE(std::find(bound.begin(), bound.end(), head), bound.end());
    add(row, found);
  }
  EXPECT_EQ(found, wanted);
  EXPECT_LT(rows.size(), bound.size() * 12 / 4);
  EXPECT_EQ(rows, covering_rows(bound, free, 7));
  EXPECT_NE(rows, covering_rows(bound, free, 8));
  EXPECT_TRUE(covering_rows({}, free, 1).empty());
}

}  // namespace
}  // namespace distwrap::conformance
