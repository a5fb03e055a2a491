// softmax, norms and their gradients, losses and steps against plain loops.
#include "cpu/kernels.h"
#include "samples.h"

#include <cmath>
#include <limits>

namespace distwrap::cpu {
namespace {

// Applies `f` to each row along dimension `dim` of tensors of equal sizes.
using RowFunction = std::function<Values(const std::vector<Values>&)>;
Values by_rows(const std::vector<Tensor>& tensors, int dim,
               const RowFunction& f) {
  const Tensor& first = tensors[0];
  int64_t inner = 1;
  for (int d = dim + 1; d < first.dims(); ++d) inner *= first.size(d);
  const int64_t n = first.dims() == 0 ? 1 : first.size(dim);
  Values out(static_cast<size_t>(first.count()));
  if (out.empty()) return out;
  for (int64_t outer = 0; outer < first.count() / (n * inner); ++outer) {
    for (int64_t k = 0; k < inner; ++k) {
      std::vector<Values> rows;
      for (const Tensor& tensor : tensors) {
        Values row;
        for (int64_t i = 0; i < n; ++i)
          row.push_back(element(tensor, (outer * n + i) * inner + k));
        rows.push_back(row);
      }
      const Values result = f(rows);
      for (int64_t i = 0; i < n; ++i)
        out[static_cast<size_t>((outer * n + i) * inner + k)] =
            result[static_cast<size_t>(i)];
    }
  }
  return out;
}

double total(const Values& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum;
}

Values softmax_row(const Values& x) {
  double most = -std::numeric_limits<double>::infinity();
  for (const double value : x) most = std::max(most, value);
  Values out;
  for (const double value : x) out.push_back(std::exp(value - most));
  const double sum = total(out);
  for (double& value : out) value /= sum;
  return out;
}

TEST(Softmax, EveryTypeLayoutAndDimension) {
  for (const DType dtype : kFloats) {
    for (const Dims& sizes : {Dims{}, Dims{6}, Dims{3, 5, 4}, Dims{2, 3000},
                              Dims{0, 4}, Dims{4, 0}}) {
      const Tensor base = sample(sizes, dtype);
      for (int dim = 0; dim < std::max<int>(base.dims(), 1); ++dim) {
        const Values soft = by_rows(
            {base}, dim, [](const auto& rows) { return softmax_row(rows[0]); });
        Values logs;
        for (const double value : soft) logs.push_back(std::log(value));
        for (const Tensor& x : layouts(base)) {
          expect_near(ok(softmax(x, dim)), soft, precision(dtype), "softmax");
          expect_near(ok(log_softmax(x, dim)), logs, precision(dtype) * 2,
                      "log_softmax");
        }
      }
    }
  }
}

TEST(Softmax, Gradients) {
  for (const DType dtype : kFloats) {
    const Tensor y = sample({3, 5, 4}, dtype, 1),
                 g = sample({3, 5, 4}, dtype, 2);
    for (int dim = 0; dim < 3; ++dim) {
      const Values soft = by_rows({g, y}, dim, [](const auto& rows) {
        double dot = 0;
        Values out;
        for (size_t i = 0; i < rows[0].size(); ++i)
          dot += rows[0][i] * rows[1][i];
        for (size_t i = 0; i < rows[0].size(); ++i)
          out.push_back((rows[0][i] - dot) * rows[1][i]);
        return out;
      });
      const Values logs = by_rows({g, y}, dim, [](const auto& rows) {
        Values out;
        for (size_t i = 0; i < rows[0].size(); ++i)
          out.push_back(rows[0][i] - std::exp(rows[1][i]) * total(rows[0]));
        return out;
      });
      for (size_t i = 0; i < 4; ++i) {
        const Tensor a = layouts(g)[i], b = layouts(y)[3 - i];
        expect_near(ok(softmax_backward(a, b, dim)), soft,
                    precision(dtype) * 10, "softmax_backward");
        expect_near(ok(log_softmax_backward(a, b, dim)), logs,
                    precision(dtype) * 20, "log_softmax_backward");
      }
    }
  }
}

TEST(Softmax, LargeAndSpecialValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_near(ok(softmax(tensor_of({2, 2}, {1000, 1000, -inf, 3}), 1)),
              {0.5, 0.5, 0, 1}, 1e-6, "large");
  expect_near(ok(softmax(tensor_of({1, 2}, {nan, 1}), 1)), {nan, nan}, 0,
              "NaN");
  expect_near(ok(log_softmax(tensor_of({1, 2}, {-inf, 3}), 1)), {-inf, 0}, 0,
              "log");
}

struct NormRow {
  double mean, factor;
};
NormRow norm_row(const Values& x, double eps, bool centred) {
  const auto n = static_cast<double>(x.size());
  const double mean = centred ? total(x) / n : 0;
  double squares = 0;
  for (const double value : x) squares += (value - mean) * (value - mean);
  return {mean, 1 / std::sqrt(squares / n + eps)};
}

TEST(Norms, EveryTypeAndLayout) {
  for (const DType dtype : kFloats) {
    for (const Dims& sizes :
         {Dims{6}, Dims{3, 5, 4}, Dims{2, 3000}, Dims{0, 4}, Dims{4, 0}}) {
      const Tensor base = sample(sizes, dtype);
      const Tensor w = sample({sizes.back()}, dtype, 2);
      const Tensor b = sample({sizes.back()}, dtype, 3);
      const int dim = base.dims() - 1;
      for (int given = 0; given < 4; ++given) {
        const Tensor* const weight = (given & 1) != 0 ? &w : nullptr;
        const Tensor* const bias = (given & 2) != 0 ? &b : nullptr;
        const auto expected = [&](bool centred) {
          return by_rows({base}, dim, [&](const auto& rows) {
            const NormRow moments = norm_row(rows[0], 1e-5, centred);
            Values out;
            for (size_t i = 0; i < rows[0].size(); ++i) {
              const auto at = static_cast<int64_t>(i);
              double y = (rows[0][i] - moments.mean) * moments.factor;
              if (weight != nullptr) y *= element(w, at);
              if (bias != nullptr && centred) y += element(b, at);
              out.push_back(y);
            }
            return out;
          });
        };
        for (const Tensor& x : layouts(base)) {
          expect_near(ok(layer_norm(x, weight, bias, 1e-5)), expected(true),
                      precision(dtype) * 4, "layer_norm " + x.text());
          expect_near(ok(rms_norm(x, weight, 1e-5)), expected(false),
                      precision(dtype) * 4, "rms_norm " + x.text());
        }
      }
    }
  }
}

// Gradients against differences of the forward formula.
TEST(Norms, Gradients) {
  const Tensor base = sample({70, 5}, DType::kF64, 1);
  const Tensor g = sample({70, 5}, DType::kF64, 2);
  const Tensor w = sample({5}, DType::kF64, 3), b = sample({5}, DType::kF64, 4);
  for (const bool centred : {true, false}) {
    for (const bool weighted : {true, false}) {
      const Tensor* const weight = weighted ? &w : nullptr;
      const auto loss = [&] {
        const Tensor y = centred ? ok(layer_norm(base, weight, &b, 1e-5))
                                 : ok(rms_norm(base, weight, 1e-5));
        double sum = 0;
        for (int64_t i = 0; i < y.count(); ++i)
          sum += element(y, i) * element(g, i);
        return sum;
      };
      const auto slopes = [&](const Tensor& x) {
        Values out;
        for (int64_t i = 0; i < x.count(); ++i) {
          const double value = element(x, i);
          set_element(x, i, value + 1e-5);
          const double above = loss();
          set_element(x, i, value - 1e-5);
          out.push_back((above - loss()) / 2e-5);
          set_element(x, i, value);
        }
        return out;
      };
      for (size_t i = 0; i < 4; ++i) {
        const Tensor grad = layouts(g)[i], x = layouts(base)[3 - i];
        Tensor dx, dw, db;
        if (centred) {
          std::tie(dx, dw, db) = ok(layer_norm_backward(grad, x, weight, 1e-5));
          expect_near(db, slopes(b), 1e-7, "bias");
        } else {
          std::tie(dx, dw) = ok(rms_norm_backward(grad, x, weight, 1e-5));
        }
        if (i == 0) expect_near(dx, slopes(base), 1e-6, "input");
        if (weighted) expect_near(dw, slopes(w), 1e-6, "weight");
        for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
          const auto narrow = [&](const Tensor& t) {
            return ok(to_copy(t, dtype, kCpu));
          };
          const Tensor small = narrow(w);
          const Tensor* const some = weighted ? &small : nullptr;
          const Tensor again = centred
                                   ? std::get<0>(ok(layer_norm_backward(
                                         narrow(grad), narrow(x), some, 1e-5)))
                                   : std::get<0>(ok(rms_norm_backward(
                                         narrow(grad), narrow(x), some, 1e-5)));
          expect_near(again, values_of(dx),
                      std::max(precision(dtype), 1e-6) * 30, "types");
        }
      }
    }
  }
}

TEST(NllLoss, MeanOverTargetsThatCount) {
  for (const DType dtype : kFloats) {
    const Tensor base = sample({5, 3}, dtype);
    for (const DType index : {DType::kI64, DType::kI32}) {
      const Tensor target = tensor_of({5}, {0, 2, -100, 1, -100}, index);
      const double expected =
          -(element(base, 0) + element(base, 5) + element(base, 10)) / 3;
      for (const Tensor& x : layouts(base)) {
        expect_near(ok(nll_loss(x, target, -100)), {expected}, precision(dtype),
                    "nll_loss");
      }
    }
    EXPECT_TRUE(std::isnan(
        element(ok(nll_loss(sample({2, 3}, dtype),
                            tensor_of({2}, {-1, -1}, DType::kI64), -1)),
                0)));
  }
}

TEST(Adamw, ThreeStepsInEveryTypeAndLayout) {
  for (const DType dtype : kFloats) {
    for (size_t layout = 0; layout < 4; ++layout) {
      const Tensor x = layouts(sample({7, 90}, dtype, 1))[layout];
      const Tensor m =
          layouts(ok(full(Dims{7, 90}, 0, dtype, kCpu)))[3 - layout];
      const Tensor v = ok(full(Dims{7, 90}, 0, dtype, kCpu));
      Values xs = values_of(x), ms(xs.size()), vs(xs.size());
      for (int step = 1; step <= 3; ++step) {
        const Tensor g = layouts(sample({7, 90}, dtype, 1 + step))[layout];
        for (size_t i = 0; i < xs.size(); ++i) {
          const double grad = element(g, static_cast<int64_t>(i));
          ms[i] = 0.9 * ms[i] + 0.1 * grad;
          vs[i] = 0.95 * vs[i] + 0.05 * grad * grad;
          const double mean = ms[i] / (1 - std::pow(0.9, step));
          const double variance = vs[i] / (1 - std::pow(0.95, step));
          xs[i] -= 0.01 * 0.1 * xs[i];
          xs[i] -= 0.01 * mean / (std::sqrt(variance) + 1e-3);
          ms[i] = rounded(dtype, ms[i]);
          vs[i] = rounded(dtype, vs[i]);
          xs[i] = rounded(dtype, xs[i]);
        }
        ASSERT_TRUE(adamw_(x, g, m, v, step, 0.01, 0.9, 0.95, 1e-3, 0.1).ok());
      }
      expect_near(x, xs, precision(dtype) * 4, "adamw_ " + x.text());
      expect_near(m, ms, precision(dtype) * 4, "mean");
      expect_near(v, vs, precision(dtype) * 4, "variance");
    }
  }
}

}  // namespace
}  // namespace distwrap::cpu
