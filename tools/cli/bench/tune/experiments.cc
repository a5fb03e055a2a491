#include "bench/tune/experiments.h"

#include <absl/strings/str_cat.h>

#include <utility>

namespace distwrap::bench {
namespace {

constexpr double kWorthIt = 0.97;
constexpr int64_t kKib = 1 << 10, kMib = 1 << 20;
// The range that the backend accepts.
constexpr int64_t kSmallest = 1 << 10, kLargest = 1 << 30;

int64_t usual(absl::string_view threshold) {
#define SHM_TUNING(name, bytes, what, way) \
  if (threshold == #name) return bytes;
#include "shm/tuning.def"
  return 0;
}

std::string value(absl::string_view name, int64_t bytes) {
  return absl::StrCat(name, "=", bytes);
}

}  // namespace

std::vector<int64_t> Experiment::sizes() const {
  std::vector<int64_t> all;
  for (int64_t size = least; size <= most; size *= 2) all.push_back(size);
  return all;
}

Spec Experiment::spec(int64_t size, int rank, int ranks) const {
  Spec spec;
  spec.op = Operation::kAllReduce;
  spec.rank = rank;
  spec.ranks = ranks;
  spec.bytes = size;
  spec.dtype = dtype;
  return spec;
}

std::string Experiment::always() const {
  return absl::StrCat(others, value(name, kSmallest));
}

std::string Experiment::never() const {
  return absl::StrCat(others, value(name, kLargest));
}

std::vector<Experiment> experiments(int ranks) {
  const std::string staged = absl::StrCat(value("direct_tried", kLargest), ",");
  const bool two = ranks == 2;
  std::vector<Experiment> all;
  const auto reduces = [&](std::string name, DType dtype, int64_t least,
                           int64_t most, std::string others) {
    all.push_back({.name = std::move(name),
                   .dtype = dtype,
                   .least = least,
                   .most = most,
                   .others = std::move(others)});
  };
  if (two) {
    reduces("sliced_two", DType::kF32, 16 * kKib, kMib, staged);
    reduces("sliced_two_halves", DType::kF16, 8 * kKib, 512 * kKib, staged);
  } else {
    reduces("sliced_more", DType::kF32, 4 * kKib, 256 * kKib, staged);
  }
  for (Experiment& one : all) one.usual = usual(one.name);
  return all;
}

Found find_threshold(int64_t usual, absl::Span<const SizeRatio> points) {
  // Down while the new method is faster, up while the old one is.
  Found found = {usual, 0};
  std::vector<double> gains;
  for (size_t i = points.size(); i > 0; --i) {
    const auto& [size, ratio] = points[i - 1];
    if (size >= usual) continue;
    if (ratio.median > kWorthIt || ratio.high >= 1) break;
    gains.push_back(1 / ratio.median - 1);
    found.bytes = size;
  }
  if (gains.empty()) {
    for (const auto& [size, ratio] : points) {
      if (size < usual) continue;
      if (ratio.median < 1 / kWorthIt || ratio.low <= 1) break;
      gains.push_back(ratio.median - 1);
      found.bytes = 2 * size;
    }
  }
  if (!gains.empty()) found.gain = median(std::move(gains));
  return found;
}

}  // namespace distwrap::bench
