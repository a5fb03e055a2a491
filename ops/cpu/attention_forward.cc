// attention_forward: softmax(query key^T * scale + mask) value, by blocks of
// keys.
//
// Each row keeps the largest score so far, and the sum of exponentials and of
// weighted values relative to it; when a larger score comes, both are scaled
// down. After Milakov and Gimelshein 2018, and Dao et al. 2022.
#include "cpu/attention.h"
#include "cpu/cascade.h"
#include "cpu/vector_math.h"
#include "distwrap/arguments.h"
#include "distwrap/outputs.h"
#include "distwrap/registration.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace distwrap::cpu {
namespace {

// The softmax so far of a block of queries.
template <class T>
struct Running {
  std::vector<T> max, sum, weighted;
  std::vector<T> scores;
};

// Takes in a block of scores, which become exponentials.
template <class T>
void take_scores(Running<T>& running, int64_t rows, int64_t columns,
                 int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = static_cast<size_t>(r);
    T* const scores = running.scores.data() + r * Scores<T>::kKeys;
    const T before = running.max[row];
    const T largest = cpu::rows<T>().max(scores, columns);
    const T max = before > largest || before != before ? before : largest;
    if (max == -std::numeric_limits<T>::infinity()) {
      // No key has taken part so far.
      std::fill_n(scores, columns, T{0});
      continue;
    }
    functions<T>().exp(scores, scores, max, columns);
    T scale = before;
    functions<T>().exp(&scale, &scale, max, 1);
    running.sum[row] = running.sum[row] * scale + sum_row(scores, columns);
    running.max[row] = max;
    if (scale != T{1}) {
      T* const weighted = running.weighted.data() + r * width;
      cpu::rows<T>().scale(weighted, weighted, scale, width);
    }
  }
}

template <class T>
absl::Status forward(const Tensor& output, const Tensor& logsumexp,
                     const Tensor& query, const Tensor& key,
                     const Tensor& value, const Tensor* mask, bool causal,
                     double scale) {
  absl::StatusOr<Scores<T>> scores =
      Scores<T>::of(query, key, mask, causal, scale);
  if (!scores.ok()) return std::move(scores).status();
  absl::StatusOr<Matrices<T>> values = Matrices<T>::of(value);
  if (!values.ok()) return std::move(values).status();
  constexpr int64_t kQueries = Scores<T>::kQueries, kKeys = Scores<T>::kKeys;
  const int64_t width = value.size(-1);
  Running<T> running;
  const auto make_room = [](std::vector<T>& room, int64_t count) {
    room.resize(static_cast<size_t>(count));
  };
  make_room(running.max, kQueries);
  make_room(running.sum, kQueries);
  make_room(running.weighted, kQueries * width);
  make_room(running.scores, kQueries * kKeys);
  const int64_t size = dtype_size(output.dtype());
  for (int64_t b = 0; b < scores->batches(); ++b) {
    for (int64_t i = 0; i < scores->queries(); i += kQueries) {
      const int64_t rows = std::min(scores->queries() - i, kQueries);
      std::fill(running.max.begin(), running.max.end(),
                -std::numeric_limits<T>::infinity());
      std::fill(running.sum.begin(), running.sum.end(), T{0});
      std::fill(running.weighted.begin(), running.weighted.end(), T{0});
      const int64_t seen = scores->keys_seen(i + rows);
      for (int64_t j = 0; j < seen; j += kKeys) {
        const int64_t columns = std::min(seen - j, kKeys);
        scores->compute(b, i, rows, j, columns, running.scores.data());
        take_scores(running, rows, columns, width);
        if (width > 0) {
          product<T>(rows, width, columns, T{1}, {running.scores.data(), kKeys},
                     values->at(b, j), T{1}, {running.weighted.data(), width});
        }
      }
      for (int64_t r = 0; r < rows; ++r) {
        const auto row = static_cast<size_t>(r);
        const int64_t at = b * scores->queries() + i + r;
        const T sum = running.sum[row];
        T* const weighted = running.weighted.data() + r * width;
        T log = sum;
        functions<T>().log(&log, &log, 1);
        logsumexp.data<T>()[at] = sum == T{0}
                                      ? -std::numeric_limits<T>::infinity()
                                      : running.max[row] + log;
        if (sum != T{0})
          cpu::rows<T>().scale(weighted, weighted, T{1} / sum, width);
        write_row(output.dtype(),
                  static_cast<char*>(output.data()) + at * width * size, 1,
                  width, weighted);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TwoTensors> attention_forward(const Tensor& query,
                                             const Tensor& key,
                                             const Tensor& value,
                                             const Tensor* mask, bool causal,
                                             std::optional<double> scale) {
  absl::StatusOr<TwoTensors> out =
      outputs::attention_forward(query, key, value, mask);
  if (!out.ok()) return out;
  const auto& [output, logsumexp] = *out;
  const double factor = scale.has_value()
                            ? *scale
                            : 1 / std::sqrt(static_cast<double>(
                                      std::max<int64_t>(query.size(-1), 1)));
  const absl::Status status =
      query.dtype() == DType::kF64
          ? forward<double>(output, logsumexp, query, key, value, mask, causal,
                            factor)
          : forward<float>(output, logsumexp, query, key, value, mask, causal,
                           factor);
  if (!status.ok()) return status;
  return out;
}

DW_OPERATORS(lib) {
  using namespace distwrap::dispatch;
  lib.impl("dw::attention_forward", {kDense, kCpu},
           kernel<&attention_forward>());
}

}  // namespace distwrap::cpu
