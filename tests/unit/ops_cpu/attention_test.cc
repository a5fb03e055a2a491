// Attention against the whole matrix of scores in f64.
#include "cpu/kernels.h"
#include "samples.h"

#include <cmath>
#include <limits>

namespace distwrap::cpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Case {
  int64_t batches, queries, keys, depth, width;
  bool causal;
  // The sizes of the mask; nothing where there is none.
  std::vector<int64_t> mask;
  bool mask_is_bool = false;
};

// The weights of one batch; all 0 where a query sees no key.
Values weights_of(const Case& c, const Tensor& q, const Tensor& k,
                  const Tensor* mask, double scale, int64_t batch,
                  Values* logs = nullptr) {
  Values weights;
  const Tensor spread = mask == nullptr
                            ? Tensor()
                            : expanded(*mask, {c.batches, c.queries, c.keys});
  for (int64_t i = 0; i < c.queries; ++i) {
    Values row;
    double most = -kInf, sum = 0;
    for (int64_t j = 0; j < c.keys; ++j) {
      double score = 0;
      for (int64_t d = 0; d < c.depth; ++d)
        score += element(q, (batch * c.queries + i) * c.depth + d) *
                 element(k, (batch * c.keys + j) * c.depth + d);
      score *= scale;
      if (mask != nullptr) {
        const double m = element(spread, (batch * c.queries + i) * c.keys + j);
        if (!c.mask_is_bool) score += m;
        if (c.mask_is_bool && m == 0) score = -kInf;
      }
      if (c.causal && j > i + c.keys - c.queries) score = -kInf;
      row.push_back(score);
      most = std::max(most, score);
    }
    for (double& score : row) {
      score = most == -kInf ? 0 : std::exp(score - most);
      sum += score;
    }
    if (logs != nullptr) logs->push_back(most + std::log(sum));
    for (const double score : row)
      weights.push_back(sum == 0 ? 0 : score / sum);
  }
  return weights;
}

const Case kCases[] = {
    {2, 5, 7, 4, 3, false, {}},
    {2, 5, 7, 4, 3, true, {}},
    {1, 7, 5, 4, 3, true, {}},  // the first queries see no key
    {2, 5, 7, 4, 3, false, {5, 7}, true},
    {2, 5, 7, 4, 3, true, {2, 1, 7}, true},
    {2, 5, 7, 4, 3, true, {5, 1}, false},
    {1, 150, 300, 4, 3, true, {}},
    {1, 140, 520, 3, 4, false, {140, 520}, true},
    {2, 0, 3, 4, 3, false, {}},
    {2, 3, 0, 4, 3, false, {}},
    {2, 3, 4, 0, 3, false, {}},
    {2, 3, 4, 2, 0, true, {}},
};

TEST(Attention, Forward) {
  for (const DType dtype : kFloats) {
    for (const Case& c : kCases) {
      if (c.queries > 100 && dtype != DType::kF32) continue;
      const Tensor q = sample({c.batches, c.queries, c.depth}, dtype, 1);
      const Tensor k = sample({c.batches, c.keys, c.depth}, dtype, 2);
      const Tensor v = sample({c.batches, c.keys, c.width}, dtype, 3);
      Tensor mask;
      if (!c.mask.empty()) {
        mask = sample(Dims(c.mask.begin(), c.mask.end()),
                      c.mask_is_bool ? DType::kBool : dtype, 4);
      }
      const Tensor* const given = mask.defined() ? &mask : nullptr;
      const double scale = c.depth == 0 ? 1 : 1 / std::sqrt(c.depth);
      Values expected, logs;
      for (int64_t b = 0; b < c.batches; ++b) {
        const Values weights = weights_of(c, q, k, given, scale, b, &logs);
        for (int64_t i = 0; i < c.queries; ++i) {
          for (int64_t e = 0; e < c.width; ++e) {
            double sum = 0;
            for (int64_t j = 0; j < c.keys; ++j)
              sum += weights[static_cast<size_t>(i * c.keys + j)] *
                     element(v, (b * c.keys + j) * c.width + e);
            expected.push_back(sum);
          }
        }
      }
      for (size_t i = 0; i < 4; ++i) {
        if (i > 0 && c.queries > 100) break;
        if (given != nullptr) mask = layouts(mask)[3 - i];
        const auto [out, logsumexp] =
            ok(attention_forward(layouts(q)[i], layouts(k)[(i + 1) % 4],
                                 layouts(v)[(i + 2) % 4], given, c.causal, {}));
        const std::string what = q.text() + k.text();
        expect_near(out, expected, precision(dtype) * 4, what);
        expect_near(logsumexp, logs, dtype == DType::kF64 ? 1e-14 : 2e-6, what);
      }
    }
  }
}

TEST(Attention, HeadsOfOneTensor) {
  // (B, L, H, D) seen as (B, H, L, D): rows are dense, and nothing is copied.
  const Tensor x = sample({2, 6, 3, 4});
  const auto heads = [&] {
    const Dims sizes = {2, 3, 6, 4}, strides = {72, 4, 12, 1};
    return *Tensor::of_storage(x.storage(), x.dtype(), sizes, strides, 0);
  }();
  const Tensor copy = ok(clone(heads));
  expect_same_bits(
      std::get<0>(
          ok(attention_forward(heads, heads, heads, nullptr, true, {}))),
      std::get<0>(ok(attention_forward(copy, copy, copy, nullptr, true, {}))),
      "heads");
}

TEST(Attention, Backward) {
  for (const Case& c : kCases) {
    for (const DType dtype : kFloats) {
      if (c.queries > 100 && dtype != DType::kF32) continue;
      const Tensor q = sample({c.batches, c.queries, c.depth}, dtype, 1);
      const Tensor k = sample({c.batches, c.keys, c.depth}, dtype, 2);
      const Tensor v = sample({c.batches, c.keys, c.width}, dtype, 3);
      const Tensor g = sample({c.batches, c.queries, c.width}, dtype, 5);
      Tensor mask;
      if (!c.mask.empty()) {
        mask = sample(Dims(c.mask.begin(), c.mask.end()),
                      c.mask_is_bool ? DType::kBool : dtype, 4);
      }
      const Tensor* const given = mask.defined() ? &mask : nullptr;
      const double scale = 0.4;
      Values dq, dk, dv;
      for (int64_t b = 0; b < c.batches; ++b) {
        const Values weights = weights_of(c, q, k, given, scale, b);
        const auto weight = [&](int64_t i, int64_t j) {
          return weights[static_cast<size_t>(i * c.keys + j)];
        };
        const auto at = [b](const Tensor& t, int64_t i, int64_t d) {
          return element(t, (b * t.size(1) + i) * t.size(2) + d);
        };
        // The gradient of the scores.
        Values slopes;
        for (int64_t i = 0; i < c.queries; ++i) {
          Values row;
          double average = 0;
          for (int64_t j = 0; j < c.keys; ++j) {
            double sum = 0;
            for (int64_t e = 0; e < c.width; ++e)
              sum += at(g, i, e) * at(v, j, e);
            row.push_back(sum);
            average += sum * weight(i, j);
          }
          for (int64_t j = 0; j < c.keys; ++j)
            slopes.push_back(weight(i, j) *
                             (row[static_cast<size_t>(j)] - average) * scale);
        }
        const auto slope = [&](int64_t i, int64_t j) {
          return slopes[static_cast<size_t>(i * c.keys + j)];
        };
        for (int64_t i = 0; i < c.queries; ++i) {
          for (int64_t d = 0; d < c.depth; ++d) {
            double sum = 0;
            for (int64_t j = 0; j < c.keys; ++j)
              sum += slope(i, j) * at(k, j, d);
            dq.push_back(sum);
          }
        }
        for (int64_t j = 0; j < c.keys; ++j) {
          for (int64_t d = 0; d < c.depth; ++d) {
            double sum = 0;
            for (int64_t i = 0; i < c.queries; ++i)
              sum += slope(i, j) * at(q, i, d);
            dk.push_back(sum);
          }
          for (int64_t e = 0; e < c.width; ++e) {
            double sum = 0;
            for (int64_t i = 0; i < c.queries; ++i)
              sum += weight(i, j) * at(g, i, e);
            dv.push_back(sum);
          }
        }
      }
      const auto [out, logs] =
          ok(attention_forward(q, k, v, given, c.causal, scale));
      const bool half = dtype == DType::kF16 || dtype == DType::kBF16;
      const double tolerance = precision(dtype) * (half ? 6 : 40);
      for (size_t i = 0; i < 4; ++i) {
        if (i > 0 && c.queries > 100) break;
        const auto [a, b, d] = ok(attention_backward(
            layouts(g)[i], layouts(q)[3 - i], layouts(k)[i], layouts(v)[i],
            given, layouts(out)[i], layouts(logs)[i], c.causal, scale));
        const std::string what = q.text() + k.text();
        expect_near(a, dq, tolerance, "query of " + what);
        expect_near(b, dk, tolerance, "key of " + what);
        expect_near(d, dv, tolerance, "value of " + what);
      }
    }
  }
}

}  // namespace
}  // namespace distwrap::cpu
