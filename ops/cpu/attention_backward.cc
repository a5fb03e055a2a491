// attention_backward: the scores are computed again, by blocks.
//
// With P = exp(scores - logsumexp) and the gradient G of the output, the
// gradient of value is P^T G; that of the scores is P * (G value^T - d), where
// d of a row is its sum of G * output; query and key get it through each other.
// After Dao et al. 2022.
#include "cpu/attention.h"
#include "cpu/cascade.h"
#include "cpu/strided_copy.h"
#include "cpu/vector_math.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace distwrap::cpu {
namespace {

// A gradient while it is summed: the output itself, or a tensor of T that is
// rounded at the end.
template <class T>
absl::StatusOr<Tensor> zeros_for(const Tensor& out) {
  if (out.dtype() == dtype_of<T>) {
    std::fill_n(out.data<T>(), out.count(), T{0});
    return out;
  }
  absl::StatusOr<Tensor> sums = Tensor::empty(out.sizes(), dtype_of<T>);
  if (sums.ok()) std::fill_n(sums->data<T>(), sums->count(), T{0});
  return sums;
}

template <class T>
absl::Status backward(const ThreeTensors& out, const Tensor& grad,
                      const Tensor& query, const Tensor& key,
                      const Tensor& value, const Tensor* mask,
                      const Tensor& output, const Tensor& logsumexp,
                      bool causal, double scale) {
  absl::StatusOr<Scores<T>> scores =
      Scores<T>::of(query, key, mask, causal, scale);
  if (!scores.ok()) return std::move(scores).status();
  Tensor sums[3];
  const Tensor* const outs[] = {&std::get<0>(out), &std::get<1>(out),
                                &std::get<2>(out)};
  for (int k = 0; k < 3; ++k) {
    absl::StatusOr<Tensor> zeros = zeros_for<T>(*outs[k]);
    if (!zeros.ok()) return std::move(zeros).status();
    sums[k] = *std::move(zeros);
  }
  absl::StatusOr<Matrices<T>> values = Matrices<T>::of(value);
  absl::StatusOr<Matrices<T>> grads = Matrices<T>::of(grad);
  absl::StatusOr<Matrices<T>> results = Matrices<T>::of(output);
  absl::StatusOr<Tensor> logs = row_major_of(logsumexp);
  for (const absl::Status& status :
       {values.status(), grads.status(), results.status(), logs.status()}) {
    if (!status.ok()) return status;
  }
  constexpr int64_t kQueries = Scores<T>::kQueries, kKeys = Scores<T>::kKeys;
  const int64_t depth = query.size(-1), width = value.size(-1);
  const int64_t queries = scores->queries(), keys = scores->keys();
  const auto factor = static_cast<T>(scale);
  const auto matrix = [](const Tensor& tensor, int64_t row) {
    const int64_t columns = tensor.size(-1);
    return Matrix<T>{tensor.data<T>() + row * columns,
                     std::max<int64_t>(columns, 1)};
  };
  std::vector<T> exps(kQueries * kKeys), slopes(kQueries * kKeys);
  std::vector<T> totals(kQueries);
  for (int64_t b = 0; b < scores->batches(); ++b) {
    for (int64_t i = 0; i < queries; i += kQueries) {
      const int64_t rows = std::min(queries - i, kQueries);
      for (int64_t r = 0; r < rows; ++r)
        totals[static_cast<size_t>(r)] = dot_row(
            grads->at(b, i + r).data, results->at(b, i + r).data, width);
      const int64_t seen = scores->keys_seen(i + rows);
      for (int64_t j = 0; j < seen; j += kKeys) {
        const int64_t columns = std::min(seen - j, kKeys);
        scores->compute(b, i, rows, j, columns, exps.data());
        for (int64_t r = 0; r < rows; ++r) {
          T* const row = exps.data() + r * kKeys;
          const T log = logs->data<T>()[b * queries + i + r];
          if (log == -std::numeric_limits<T>::infinity()) {
            std::fill_n(row, columns, T{0});
          } else {
            functions<T>().exp(row, row, log, columns);
          }
        }
        const Matrix<const T> weights{exps.data(), kKeys};
        Matrix<const T> turned = weights;
        turned.transposed = true;
        if (width > 0) {
          product<T>(columns, width, rows, T{1}, turned, grads->at(b, i), T{1},
                     matrix(sums[2], b * keys + j));
          Matrix<const T> across = values->at(b, j);
          across.transposed = true;
          product<T>(rows, columns, width, T{1}, grads->at(b, i), across, T{0},
                     {slopes.data(), kKeys});
        } else {
          std::fill(slopes.begin(), slopes.end(), T{0});
        }
        for (int64_t r = 0; r < rows; ++r) {
          T* const row = slopes.data() + r * kKeys;
          cpu::rows<T>().shift_mul(row, row, exps.data() + r * kKeys,
                                   totals[static_cast<size_t>(r)], columns);
        }
        if (depth == 0) continue;
        turned.data = slopes.data();
        product<T>(rows, depth, columns, factor, {slopes.data(), kKeys},
                   scores->key().at(b, j), T{1},
                   matrix(sums[0], b * queries + i));
        product<T>(columns, depth, rows, factor, turned,
                   scores->query().at(b, i), T{1},
                   matrix(sums[1], b * keys + j));
      }
    }
  }
  for (int k = 0; k < 3; ++k) {
    if (!sums[k].is_same(*outs[k])) copy_converted(*outs[k], sums[k]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ThreeTensors> attention_backward(
    const Tensor& grad, const Tensor& query, const Tensor& key,
    const Tensor& value, const Tensor* mask, const Tensor& output,
    const Tensor& logsumexp, bool causal, double scale) {
  absl::StatusOr<ThreeTensors> out = outputs::attention_backward(
      grad, query, key, value, mask, output, logsumexp);
  if (!out.ok()) return out;
  const absl::Status status =
      query.dtype() == DType::kF64
          ? backward<double>(*out, grad, query, key, value, mask, output,
                             logsumexp, causal, scale)
          : backward<float>(*out, grad, query, key, value, mask, output,
                            logsumexp, causal, scale);
  if (!status.ok()) return status;
  return out;
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::attention_backward", {kDense, kCpu},
           kernel<&attention_backward>());
}

}  // namespace distwrap::cpu
