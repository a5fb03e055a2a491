// All variants of the loops, and all widths of the elementary functions, give
// the same bits.
#include "cpu/kernels.h"
#include "cpu/loops.h"
#include "cpu/vector_math.h"
#include "samples.h"

#include <bit>
#include <cmath>
#include <random>

namespace distwrap::cpu {
namespace {

class Variants : public testing::Test {
 protected:
  ~Variants() override {
    use_loops(nullptr);
    use_vector_math(nullptr);
  }
};

// Runs `call` with each table; the results have equal bits.
void expect_same(const std::string& what, const std::function<Tensor()>& call) {
  const Tensor best = call();
  for (int i = 0; loops_table(i) != nullptr; ++i) {
    use_loops(loops_table(i));
    for (int k = 0; vector_math_table(k) != nullptr; ++k) {
      use_vector_math(vector_math_table(k));
      expect_same_bits(best, call(),
                       what + " by " + loops_table(i)->name + " and " +
                           vector_math_table(k)->name);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  use_loops(nullptr);
  use_vector_math(nullptr);
}

// Any bits: NaN, infinities and subnormal numbers are among them.
Tensor any_bits(int64_t n, DType dtype, int seed) {
  Tensor tensor = *Tensor::empty({n}, dtype);
  std::mt19937_64 random(static_cast<unsigned>(seed));
  auto* const bytes = static_cast<uint8_t*>(tensor.data());
  for (int64_t i = 0; i < n * dtype_size(dtype); ++i)
    bytes[i] = static_cast<uint8_t>(random());
  return tensor;
}

TEST_F(Variants, OneTensor) {
  absl::StatusOr<Tensor> (*const kernels[])(const Tensor&) = {
      &neg,   &abs, &sign, &relu, &exp,     &log,  &sqrt,
      &rsqrt, &sin, &cos,  &tanh, &sigmoid, &gelu, &silu};
  int number = 0;
  for (const auto kernel : kernels) {
    for (const DType dtype : kFloats) {
      const std::string what = "kernel " + std::to_string(number);
      const Tensor x = any_bits(5003, dtype, 1), y = sample({5003}, dtype, 2);
      expect_same(what, [&] { return ok(kernel(x)); });
      expect_same(what, [&] { return ok(kernel(y)); });
    }
    if (++number > 4) continue;
    for (const DType dtype : kIntegers) {
      const Tensor x = any_bits(5003, dtype, 1);
      if (number <= 4) expect_same("integers", [&] { return ok(kernel(x)); });
    }
  }
}

TEST_F(Variants, TwoTensors) {
  absl::StatusOr<Tensor> (*const kernels[])(const Tensor&, const Tensor&) = {
      [](const Tensor& x, const Tensor& y) { return add(x, y, 3); },
      [](const Tensor& x, const Tensor& y) { return mul(x, y); },
      [](const Tensor& x, const Tensor& y) { return eq(x, y); },
      [](const Tensor& x, const Tensor& y) { return lt(x, y); },
      &maximum,
      [](const Tensor& x, const Tensor& y) { return div(x, y); },
      &gelu_backward,
      &silu_backward};
  int number = 0;
  for (const auto kernel : kernels) {
    for (const DType dtype : number++ < 5 ? all_types() : kFloats) {
      const Tensor x = any_bits(3001, dtype, 1), y = any_bits(3001, dtype, 2);
      expect_same("kernel " + std::to_string(number),
                  [&] { return ok(kernel(x, y)); });
    }
  }
}

TEST_F(Variants, RowsAndSums) {
  for (const DType dtype : kFloats) {
    for (const int64_t n : {1, 3, 31, 64, 1000, 5000}) {
      const Tensor x = sample({3, n}, dtype, 1), g = sample({3, n}, dtype, 2);
      const Tensor w = sample({n}, dtype, 3);
      expect_same("sum", [&] { return ok(sum(x, Ints({1}), false)); });
      expect_same("sum", [&] { return ok(sum(x, Ints({0}), false)); });
      expect_same("amax", [&] { return ok(amax(x, Ints({1}), false)); });
      expect_same("softmax", [&] { return ok(softmax(x, 1)); });
      expect_same("log_softmax", [&] { return ok(log_softmax(x, 1)); });
      expect_same("backward", [&] { return ok(softmax_backward(g, x, 1)); });
      expect_same("layer_norm",
                  [&] { return ok(layer_norm(x, &w, &w, 1e-5)); });
      expect_same("layer_norm_backward", [&] {
        return std::get<0>(ok(layer_norm_backward(g, x, &w, 1e-5)));
      });
      expect_same("layer_norm_backward", [&] {
        return std::get<1>(ok(layer_norm_backward(g, x, &w, 1e-5)));
      });
    }
    expect_same("randn", [&] {
      return ok(randn(Dims{5001}, dtype, kCpu, Generator{1, 2}));
    });
    expect_same("adamw_", [&] {
      const Tensor x = sample({5001}, dtype, 1), g = sample({5001}, dtype, 2);
      const Tensor m = sample({5001}, dtype, 3);
      const Tensor v = ok(abs(sample({5001}, dtype, 4)));
      EXPECT_TRUE(adamw_(x, g, m, v, 3, 0.1, 0.9, 0.99, 1e-8, 0.1).ok());
      return x;
    });
  }
}

TEST_F(Variants, ConversionsOfAllHalves) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Tensor all = *Tensor::empty({65536}, dtype);
    for (int64_t i = 0; i < 65536; ++i)
      all.data<uint16_t>()[i] = static_cast<uint16_t>(i);
    const Tensor wide = ok(to_copy(all, DType::kF32, kCpu));
    for (int64_t i = 0; i < 65536; ++i) {
      const double want = element(all, i), got = element(wide, i);
      ASSERT_TRUE(want == got || (std::isnan(want) && std::isnan(got))) << i;
    }
    expect_same("widen", [&] { return ok(to_copy(all, DType::kF32, kCpu)); });
    const Tensor some = any_bits(70000, DType::kF32, 3);
    const Tensor narrow = ok(to_copy(some, dtype, kCpu));
    for (int64_t i = 0; i < 70000; ++i) {
      const double want = rounded(dtype, element(some, i));
      const double got = element(narrow, i);
      ASSERT_TRUE(want == got || (std::isnan(want) && std::isnan(got))) << i;
    }
    expect_same("narrow", [&] { return ok(to_copy(some, dtype, kCpu)); });
  }
}

// An element's result does not depend on its neighbours or its place.
TEST_F(Variants, PlacesDoNotMatter) {
  const Tensor x = sample({67});
  const Tensor whole = ok(gelu(x));
  for (int64_t i = 0; i < 67; ++i) {
    const Tensor one = tensor_of({1}, {element(x, i)});
    EXPECT_EQ(element(ok(gelu(one)), 0), element(whole, i));
  }
}

}  // namespace
}  // namespace distwrap::cpu
