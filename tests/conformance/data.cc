#include "data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

namespace distwrap::conformance {
namespace {

constexpr size_t kGuard = 64;
constexpr size_t kAlignment = 64;
constexpr char kGuardByte = '\x5a';
constexpr char kSentinel = '\xa5';
constexpr size_t kSpecialEvery = 37;
constexpr size_t kSpecialAt = 5;

uint64_t noise(int dtype, int rank, size_t position) {
  uint64_t x = static_cast<uint64_t>(rank + 1) * UINT64_C(0x9e3779b97f4a7c15) +
               static_cast<uint64_t>(dtype) * UINT64_C(0x632be59bd9b4e019) +
               position;
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

// The significant bits and the binary point for sums that stay exact in f32, in
// f64 or, for 16-bit types, in f32 until they are rounded.
struct Exact {
  int bits, point;
};

Exact exact(int dtype, uint16_t reduce) {
  const bool premul = reduce == DW_REDUCE_PREMUL_SUM;
  switch (dtype) {
    case DW_DTYPE_F16:
      return {premul ? 8 : 11, 4};
    case DW_DTYPE_BF16:
      return {premul ? 6 : 8, 2};
    case DW_DTYPE_F32:
      return {premul ? 16 : 20, 3};
    default:
      return {premul ? 36 : 40, 7};
  }
}

long double real_value(int dtype, uint16_t reduce, int rank, size_t position) {
  const uint64_t bits = noise(dtype, rank, position);
  const int sign = (bits >> 60 & 1) != 0 ? -1 : 1;
  if (position % kSpecialEvery == kSpecialAt &&
      position / kSpecialEvery % 8 == static_cast<size_t>(rank)) {
    using Limit = std::numeric_limits<long double>;
    if (reduce == DW_REDUCE_MIN || reduce == DW_REDUCE_MAX)
      return Limit::quiet_NaN();
    return sign * Limit::infinity();
  }
  if (reduce == DW_REDUCE_PRODUCT) {
    constexpr long double kFactors[] = {1, 0.5, 2, 1.5, 1.25, 0.75, 1, 1};
    return sign * kFactors[bits % 8];
  }
  const auto [width, point] = exact(dtype, reduce);
  const uint64_t number = (bits & ((UINT64_C(1) << width) - 1)) | 1;
  return sign * std::ldexp(static_cast<long double>(number), -point);
}

std::string made_values(int dtype, uint16_t reduce, int rank) {
  const size_t size = element_size(dtype);
  std::string all(kPeriod * size, '\0');
  for (size_t i = 0; i < kPeriod; ++i) {
    const uint64_t bits = noise(dtype, rank, i);
    char* const at = all.data() + i * size;
    if (dtype == DW_DTYPE_BOOL)
      *at = i % 2 == 0 ? bits % 8 != 0 : bits % 8 == 0;
    else if (is_float(dtype) && reduce != DW_REDUCE_NONE)
      store(dtype, {0, real_value(dtype, reduce, rank, i)}, at);
    else
      std::memcpy(at, &bits, size);
  }
  return all;
}

// The inputs of all ranks, with their factors.
struct Inputs {
  Inputs(int dtype, uint16_t reduce, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      periods.push_back(values(dtype, reduce, rank));
      factors.push_back(factor(dtype, rank));
    }
    for (const Period& period : periods) in.push_back(period->data());
    for (const std::string& scale : factors) scales.push_back(scale.data());
  }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  std::vector<Period> periods;
  std::vector<std::string> factors;
  std::vector<const char*> in, scales;
};

std::string made_reduced(int dtype, uint16_t reduce, int ranks) {
  const Inputs inputs(dtype, reduce, ranks);
  std::string all(kPeriod * element_size(dtype), '\0');
  reduce_slowly(dtype, reduce, inputs.in, inputs.scales, kPeriod, all.data());
  return all;
}

std::vector<Range> made_ranges(int dtype, uint16_t reduce, int ranks) {
  const Inputs inputs(dtype, reduce, ranks);
  std::vector<Number> numbers(inputs.in.size()), factors;
  for (const char* const scale : inputs.scales)
    factors.push_back(load(dtype, scale));
  std::vector<Range> all;
  for (size_t i = 0; i < kPeriod; ++i) {
    for (size_t r = 0; r < numbers.size(); ++r)
      numbers[r] = load(dtype, inputs.in[r] + i * element_size(dtype));
    all.push_back(allowed(dtype, reduce, numbers, factors));
  }
  return all;
}

// Computed once in a process.
template <typename Made, typename Make>
std::shared_ptr<const Made> cached(int dtype, uint16_t reduce, int which,
                                   bool sum, Make make) {
  static std::mutex mutex;
  static std::map<std::vector<int>, std::shared_ptr<const Made>> all;
  const std::vector<int> key = {dtype, reduce, which, sum ? 1 : 0};
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (const auto found = all.find(key); found != all.end())
      return found->second;
  }
  auto made = std::make_shared<const Made>(make());
  std::lock_guard<std::mutex> lock(mutex);
  return all.emplace(key, std::move(made)).first->second;
}

bool both_nan(int dtype, const char* a, const char* b) {
  return std::isnan(load(dtype, a).real) && std::isnan(load(dtype, b).real);
}

}  // namespace

Period values(int dtype, uint16_t reduce, int rank) {
  return cached<std::string>(dtype, reduce, rank, false,
                             [&] { return made_values(dtype, reduce, rank); });
}

Period reduced_values(int dtype, uint16_t reduce, int ranks) {
  return cached<std::string>(dtype, reduce, ranks, true, [&] {
    return made_reduced(dtype, reduce, ranks);
  });
}

Ranges ranges(int dtype, uint16_t reduce, int ranks) {
  if (reduce == DW_REDUCE_NONE || !is_float(dtype)) return nullptr;
  return cached<std::vector<Range>>(dtype, reduce, ranks, true, [&] {
    return made_ranges(dtype, reduce, ranks);
  });
}

std::string factor(int dtype, int rank) {
  constexpr long double kFactors[] = {1.5, -0.5, 2, 1, -1.5, 3, 0.25, -1};
  std::string bytes(element_size(dtype), '\0');
  if (is_float(dtype)) store(dtype, {0, kFactors[rank % 8]}, bytes.data());
  return bytes;
}

void tile(const std::string& period, size_t element, size_t phase, size_t count,
          char* to) {
  size_t at = phase % kPeriod * element;
  for (size_t left = count * element; left > 0;) {
    const size_t part = std::min(left, period.size() - at);
    std::memcpy(to, period.data() + at, part);
    to += part;
    left -= part;
    at = 0;
  }
}

GuardedBytes::GuardedBytes(size_t size, size_t element, bool odd)
    : size_(size), memory_(size + 2 * kGuard + 2 * kAlignment, kGuardByte) {
  const auto address = reinterpret_cast<uintptr_t>(memory_.data() + kGuard);
  begin_ = kGuard + (kAlignment - address % kAlignment) % kAlignment +
           (odd ? element : 0);
  std::fill_n(data(), size, kSentinel);
  want_ = memory_;
}

void GuardedBytes::put(size_t offset, const std::string& period, size_t element,
                       size_t phase, size_t count) {
  tile(period, element, phase, count, data() + offset);
  tile(period, element, phase, count, want_.data() + begin_ + offset);
}

void GuardedBytes::want(size_t offset, const std::string& period,
                        size_t element, size_t phase, size_t count,
                        const Ranges& allowed) {
  tile(period, element, phase, count, want_.data() + begin_ + offset);
  places_.push_back(
      {begin_ + offset, begin_ + offset + count * element, phase, allowed});
}

std::string GuardedBytes::wrong(const std::string& name, int nan_dtype) const {
  if (memory_ == want_) return "";
  const size_t element = nan_dtype < 0 ? 1 : element_size(nan_dtype);
  for (const Place& place : places_)
    for (size_t at = place.begin; at < place.end; at += element) {
      if (std::memcmp(&memory_[at], &want_[at], element) == 0) continue;
      if (nan_dtype >= 0 && both_nan(nan_dtype, &memory_[at], &want_[at]))
        continue;
      const size_t i = (at - place.begin) / element + place.phase;
      if (place.allowed != nullptr &&
          (*place.allowed)[i % kPeriod].has(load(nan_dtype, &memory_[at]).real))
        continue;
      return name + " is wrong from byte " + std::to_string(at - place.begin) +
             " on, of " + std::to_string(place.end - place.begin);
    }
  for (size_t at = 0; at < memory_.size(); ++at) {
    if (memory_[at] == want_[at]) continue;
    const bool allowed =
        std::any_of(places_.begin(), places_.end(), [at](const Place& place) {
          return place.begin <= at && at < place.end;
        });
    if (allowed) continue;
    const bool outside = at < begin_ || at >= begin_ + size_;
    return outside ? "wrote outside of " + name
                   : "wrote into " + name + " where nothing is to change";
  }
  return "";
}

}  // namespace distwrap::conformance
