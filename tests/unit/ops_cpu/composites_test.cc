// Operators that are made of others, against plain loops in double.
#include "distwrap/ops.h"
#include "samples.h"

#include <cmath>
#include <limits>
#include <vector>

namespace distwrap::cpu {
namespace {

constexpr double kTolerance = 1e-12;

double at(const Tensor& x, std::vector<int64_t> index) {
  int64_t position = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    position = position * x.size(static_cast<int>(d)) + index[d];
  }
  return element(x, position);
}

// The layouts of an f64 sample.
std::vector<Tensor> samples(const Dims& sizes, int seed = 1) {
  return layouts(sample(sizes, DType::kF64, seed));
}

TEST(Composites, Products) {
  for (const Tensor& a : samples({3, 4})) {
    for (const Tensor& b : samples({4, 2}, 2)) {
      Values product, turned;
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t k = 0; k < 2; ++k) {
          double total = 0;
          for (int64_t j = 0; j < 4; ++j)
            total += at(a, {i, j}) * at(b, {j, k});
          product.push_back(total);
        }
      }
      for (int64_t k = 0; k < 2; ++k) {
        for (int64_t i = 0; i < 3; ++i) {
          turned.push_back(product[static_cast<size_t>(i * 2 + k)]);
        }
      }
      expect_near(ok(ops::matmul(a, b)), product, kTolerance, "matmul");
      expect_near(ok(ops::einsum("ij,jk->ik", {a, b})), product, kTolerance,
                  "einsum");
      expect_near(ok(ops::einsum("ij,jk->ki", {a, b})), turned, kTolerance,
                  "einsum turned");
      const Tensor bias = sample({2}, DType::kF64, 3);
      Values added = product;
      for (size_t i = 0; i < added.size(); ++i) {
        added[i] += element(bias, static_cast<int64_t>(i % 2));
      }
      expect_near(ok(ops::addmm(bias, a, b)), added, kTolerance, "addmm");
      expect_near(ok(ops::linear(a, swapped(b), &bias)), added, kTolerance,
                  "linear");
    }
  }
  // A sum over all, a trace of a product, and batches that broadcast.
  const Tensor a = sample({3, 4}, DType::kF64),
               b = sample({4, 3}, DType::kF64, 2);
  double all = 0, trace = 0;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      all += at(a, {i, j});
      trace += at(a, {i, j}) * at(b, {j, i});
    }
  }
  expect_near(ok(ops::einsum("ij->", {a})), {all}, kTolerance, "einsum sum");
  expect_near(ok(ops::einsum("ij,ji->", {a, b})), {trace}, kTolerance,
              "einsum trace");
  const Tensor batches = sample({2, 1, 3, 4}, DType::kF64, 4);
  const Tensor shared = sample({5, 4, 2}, DType::kF64, 5);
  Values wanted;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t m = 0; m < 5; ++m) {
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t k = 0; k < 2; ++k) {
          double total = 0;
          for (int64_t j = 0; j < 4; ++j) {
            total += at(batches, {n, 0, i, j}) * at(shared, {m, j, k});
          }
          wanted.push_back(total);
        }
      }
    }
  }
  expect_near(ok(ops::matmul(batches, shared)), wanted, kTolerance,
              "matmul broadcast");
}

TEST(Composites, Statistics) {
  for (const Tensor& x : samples({3, 4})) {
    Values means, vars, population, sums;
    double whole = 0;
    for (int64_t i = 0; i < 3; ++i) {
      double total = 0, squares = 0, exps = 0;
      for (int64_t j = 0; j < 4; ++j) {
        total += at(x, {i, j});
        exps += std::exp(at(x, {i, j}));
      }
      for (int64_t j = 0; j < 4; ++j) {
        squares += std::pow(at(x, {i, j}) - total / 4, 2);
      }
      means.push_back(total / 4);
      vars.push_back(squares / 3);
      population.push_back(squares / 4);
      sums.push_back(std::log(exps));
      whole += total;
    }
    constexpr int64_t kRows[] = {1};
    const Ints rows(kRows);
    expect_near(ok(ops::mean(x, rows)), means, kTolerance, "mean");
    expect_near(ok(ops::mean(x)), {whole / 12}, kTolerance, "mean of all");
    expect_near(ok(ops::var(x, rows)), vars, kTolerance, "var");
    expect_near(ok(ops::var(x, rows, true, 0)), population, kTolerance,
                "var of a population");
    expect_near(ok(ops::logsumexp(x, rows)), sums, kTolerance, "logsumexp");
  }
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor far = tensor_of({2, 2}, {1000, 1000, -inf, -inf}, DType::kF64);
  expect_near(ok(ops::logsumexp(far, Ints({1}))), {1000 + std::log(2.0), -inf},
              kTolerance, "logsumexp far out");
}

TEST(Composites, Selections) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Tensor& x : samples({3, 4})) {
    const Tensor y = sample({4}, DType::kF64, 7);
    const Tensor mask = sample({3, 1}, DType::kBool, 3);
    Values smaller, clamped, below, filled;
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        const double value = at(x, {i, j});
        smaller.push_back(std::min(value, element(y, j)));
        clamped.push_back(std::min(std::max(value, -0.5), 0.75));
        below.push_back(std::min(value, 0.75));
        filled.push_back(element(mask, i) != 0 ? 9 : value);
      }
    }
    expect_near(ok(ops::minimum(x, y)), smaller, 0, "minimum");
    expect_near(ok(ops::clamp(x, -0.5, 0.75)), clamped, 0, "clamp");
    expect_near(ok(ops::clamp(x, std::nullopt, 0.75)), below, 0, "clamp above");
    expect_near(ok(ops::masked_fill(x, mask, 9)), filled, 0, "masked_fill");
  }
  const Tensor odd = tensor_of({2}, {nan, 1}, DType::kF64);
  expect_near(ok(ops::minimum(odd, tensor_of({2}, {0, nan}, DType::kF64))),
              {nan, nan}, 0, "minimum of NaN");
  expect_near(ok(ops::clamp(odd, 2, 3)), {nan, 2}, 0, "clamp of NaN");
}

TEST(Composites, Shapes) {
  for (const Tensor& x : samples({3, 4})) {
    Values turned, middle, stacked;
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t i = 0; i < 3; ++i) turned.push_back(at(x, {i, j}));
    }
    for (int64_t i = 0; i < 3; ++i) {
      middle.push_back(at(x, {i, 1}));
      middle.push_back(at(x, {i, 2}));
    }
    for (int64_t i = 0; i < 12; ++i) {
      stacked.push_back(element(x, i));
      stacked.push_back(element(x, i));
    }
    expect_near(ok(ops::transpose(x)), turned, 0, "transpose");
    expect_near(ok(ops::reshape(x, {2, 6})), values_of(x), 0, "reshape");
    expect_near(ok(ops::narrow(x, 1, 1, 2)), middle, 0, "narrow");
    expect_near(ok(ops::stack({x, x}, -1)), stacked, 0, "stack");
    const std::vector<Tensor> rows = ok(ops::unbind(x, 0));
    ASSERT_EQ(rows.size(), 3U);
    for (int64_t i = 0; i < 3; ++i) {
      expect_near(rows[static_cast<size_t>(i)],
                  {at(x, {i, 0}), at(x, {i, 1}), at(x, {i, 2}), at(x, {i, 3})},
                  0, "unbind");
    }
  }
}

TEST(Composites, Losses) {
  for (const Tensor& x : samples({3, 4})) {
    const Tensor target = tensor_of({3}, {1, -100, 3}, DType::kI64);
    double total = 0;
    for (const int64_t i : {int64_t{0}, int64_t{2}}) {
      double exps = 0;
      for (int64_t j = 0; j < 4; ++j) exps += std::exp(at(x, {i, j}));
      total += std::log(exps) - at(x, {i, i == 0 ? 1 : 3});
    }
    expect_near(ok(ops::cross_entropy(x, target)), {total / 2}, kTolerance,
                "cross_entropy");
  }
}

TEST(Composites, Sgd) {
  for (const Tensor& x : samples({3, 4})) {
    const Tensor gradient = sample({3, 4}, DType::kF64, 6);
    Values wanted;
    for (int64_t i = 0; i < 12; ++i) {
      wanted.push_back(element(x, i) - 0.1 * element(gradient, i));
    }
    ASSERT_TRUE(ops::sgd_(x, gradient, 0.1).ok());
    expect_near(x, wanted, kTolerance, "sgd_");
  }
}

}  // namespace
}  // namespace distwrap::cpu
