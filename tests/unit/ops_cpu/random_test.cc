// Random numbers: known answers, independence of cutting, distributions.
#include "cpu/kernels.h"
#include "cpu/philox.h"
#include "samples.h"

#include <cmath>
#include <vector>

namespace distwrap::cpu {
namespace {

TEST(Philox, KnownAnswers) {
  // From the known-answer file of Random123: counter, key, result.
  uint32_t words[4];
  philox({.seed = 0, .call = 0}, 0, 1, words);
  EXPECT_EQ(words[0], 0x6627e8d5u);
  EXPECT_EQ(words[1], 0xe169c58du);
  EXPECT_EQ(words[2], 0xbc57ac4cu);
  EXPECT_EQ(words[3], 0x9b00dbd8u);
  philox({.seed = ~uint64_t{0}, .call = ~uint64_t{0}}, -1, 1, words);
  EXPECT_EQ(words[0], 0x408f276du);
  EXPECT_EQ(words[1], 0x41c83b0eu);
  EXPECT_EQ(words[2], 0xa20bc7c6u);
  EXPECT_EQ(words[3], 0x6d5451fdu);
  philox({.seed = 0x299f31d0a4093822, .call = 0x0370734413198a2e},
         static_cast<int64_t>(0x85a308d3243f6a88), 1, words);
  EXPECT_EQ(words[0], 0xd16cfe09u);
  EXPECT_EQ(words[1], 0x94fdccebu);
  EXPECT_EQ(words[2], 0x5001e420u);
  EXPECT_EQ(words[3], 0x24126ea1u);
}

// Blocks that are made side by side equal those that are made one by one.
TEST(Philox, ManyBlocksAtOnce) {
  const Generator generator{.seed = 0x123456789abcdef0, .call = ~uint64_t{5}};
  const int64_t first = (int64_t{1} << 32) - 40;  // a carry comes soon
  std::vector<uint32_t> all(4 * 100), one(4);
  philox(generator, first, 100, all.data());
  for (int64_t i = 0; i < 100; ++i) {
    philox(generator, first + i, 1, one.data());
    for (size_t w = 0; w < 4; ++w)
      EXPECT_EQ(all[static_cast<size_t>(i) * 4 + w], one[w]) << i;
  }
}

// Values depend on seed, call and index: a shorter call has the same beginning.
TEST(Random, ValuesDoNotDependOnTheSize) {
  const Generator generator{.seed = 7, .call = 3};
  for (const DType dtype : kFloats) {
    const Values long_uniform =
        values_of(ok(rand(Dims{2000}, dtype, kCpu, generator)));
    const Values long_normal =
        values_of(ok(randn(Dims{2000}, dtype, kCpu, generator)));
    for (const int64_t n : {1, 2, 3, 511, 513, 1025}) {
      const Values uniform =
          values_of(ok(rand(Dims{n}, dtype, kCpu, generator)));
      const Values normal =
          values_of(ok(randn(Dims{n}, dtype, kCpu, generator)));
      const auto end = static_cast<std::ptrdiff_t>(n);
      EXPECT_EQ(uniform,
                Values(long_uniform.begin(), long_uniform.begin() + end));
      EXPECT_EQ(normal, Values(long_normal.begin(), long_normal.begin() + end));
    }
    const Generator other{.seed = 7, .call = 4};
    EXPECT_NE(long_uniform,
              values_of(ok(rand(Dims{2000}, dtype, kCpu, other))));
  }
}

TEST(Random, Distributions) {
  constexpr int64_t kCount = 200000;
  for (const DType dtype : kFloats) {
    const Generator generator{.seed = 1, .call = 0};
    double sum = 0, squares = 0;
    for (const double x :
         values_of(ok(rand(Dims{kCount}, dtype, kCpu, generator)))) {
      ASSERT_GE(x, 0);
      ASSERT_LT(x, 1);
      sum += x;
    }
    EXPECT_NEAR(sum / kCount, 0.5, 0.005);
    sum = 0;
    double fourth = 0, pairs = 0, before = 0;
    for (const double x :
         values_of(ok(randn(Dims{kCount}, dtype, kCpu, generator)))) {
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
      pairs += x * before;
      before = x;
    }
    EXPECT_NEAR(sum / kCount, 0, 0.01);
    EXPECT_NEAR(squares / kCount, 1, 0.02);
    EXPECT_NEAR(fourth / kCount, 3, 0.1);
    EXPECT_NEAR(pairs / kCount, 0, 0.01);
  }
}

TEST(Random, TheDefaultGeneratorCountsCalls) {
  manual_seed(5);
  const Tensor first = ok(rand(Dims{4}, DType::kF32, kCpu, {}));
  const Tensor second = ok(rand(Dims{4}, DType::kF32, kCpu, {}));
  expect_same_bits(first, ok(rand(Dims{4}, DType::kF32, kCpu, Generator{5, 0})),
                   "call 0");
  expect_same_bits(
      second, ok(rand(Dims{4}, DType::kF32, kCpu, Generator{5, 1})), "call 1");
  EXPECT_EQ(next_generator(), (Generator{5, 2}));
}

TEST(Dropout, KeepsOrZeroes) {
  const Generator generator{.seed = 3, .call = 9};
  for (const DType dtype : kFloats) {
    const Tensor base = sample({40, 50}, dtype);
    const Tensor out = ok(dropout(base, 0.25, true, generator));
    int64_t zeros = 0;
    for (int64_t i = 0; i < out.count(); ++i) {
      const double x = element(base, i), y = element(out, i);
      if (y == 0) {
        zeros += x != 0;
      } else {
        EXPECT_NEAR(y, x / 0.75, precision(dtype) * std::abs(x / 0.75));
      }
    }
    EXPECT_NEAR(static_cast<double>(zeros) / 2000, 0.25, 0.04);
    // The index alone decides which elements go, in every layout and type.
    for (const Tensor& x : layouts(base)) {
      expect_same_bits(out, ok(dropout(x, 0.25, true, generator)), "layout");
    }
    const Tensor ones = ok(full(Dims{40, 50}, 1, DType::kF32, kCpu));
    const Tensor mask = ok(dropout(ones, 0.25, true, generator));
    for (int64_t i = 0; i < out.count(); ++i) {
      if (element(base, i) == 0) continue;
      EXPECT_EQ(element(mask, i) == 0, element(out, i) == 0);
    }
    expect_same_bits(ok(clone(base)), ok(dropout(base, 0.25, false, {})),
                     "not in training");
    expect_near(ok(dropout(base, 1, true, generator)), Values(2000, 0), 0,
                "p 1");
    expect_same_bits(ok(clone(base)), ok(dropout(base, 0, true, generator)),
                     "p 0");
  }
}

}  // namespace
}  // namespace distwrap::cpu
