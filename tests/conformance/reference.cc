#include "reference.h"

#include <cmath>

namespace distwrap::conformance {
namespace {

using Wide = unsigned __int128;

Wide wide(__int128 number) { return static_cast<Wide>(number); }

long double real_step(uint16_t reduce, long double a, long double b) {
  switch (reduce) {
    case DW_REDUCE_PRODUCT:
      return a * b;
    case DW_REDUCE_MIN:
      return std::isnan(a) || a < b ? a : b;
    case DW_REDUCE_MAX:
      return std::isnan(a) || a > b ? a : b;
    default:
      return a + b;
  }
}

__int128 whole_step(uint16_t reduce, __int128 a, __int128 b) {
  switch (reduce) {
    case DW_REDUCE_PRODUCT:
      return static_cast<__int128>(wide(a) * wide(b));
    case DW_REDUCE_MIN:
      return a < b ? a : b;
    case DW_REDUCE_MAX:
      return a > b ? a : b;
    case DW_REDUCE_BAND:
      return a & b;
    case DW_REDUCE_BOR:
      return a | b;
    case DW_REDUCE_BXOR:
      return a ^ b;
    default:
      return static_cast<__int128>(wide(a) + wide(b));
  }
}

}  // namespace

Number reduced(int dtype, uint16_t reduce, const std::vector<Number>& in,
               const std::vector<Number>& factors) {
  const size_t n = in.size();
  Number result = in[0];
  if (reduce == DW_REDUCE_PREMUL_SUM) result.real *= factors[0].real;
  for (size_t i = 1; i < n; ++i) {
    Number next = in[i];
    if (reduce == DW_REDUCE_PREMUL_SUM) next.real *= factors[i].real;
    result.real = real_step(reduce, result.real, next.real);
    result.whole = whole_step(reduce, result.whole, next.whole);
  }
  if (reduce != DW_REDUCE_AVG) return result;
  if (is_float(dtype)) {
    result.real /= static_cast<long double>(n);
  } else {
    char wrapped[sizeof(uint64_t)];
    store(dtype, result, wrapped);
    result.whole = load(dtype, wrapped).whole / static_cast<__int128>(n);
  }
  return result;
}

bool Range::has(long double number) const {
  return std::isnan(number) ? nan : low <= number && number <= high;
}

Range allowed(int dtype, uint16_t reduce, const std::vector<Number>& in,
              const std::vector<Number>& factors) {
  const long double exact = reduced(dtype, reduce, in, factors).real;
  if (reduce == DW_REDUCE_MIN || reduce == DW_REDUCE_MAX) {
    std::vector<Number> numbers;
    for (const Number& one : in)
      if (!std::isnan(one.real)) numbers.push_back(one);
    if (numbers.empty()) return {1, 0, true};
    const long double best = reduced(dtype, reduce, numbers, {}).real;
    return {best, best, std::isnan(exact)};
  }
  if (std::isnan(exact)) return {1, 0, true};
  if (std::isinf(exact)) return {exact, exact, false};
  // The sizes of the terms; for a product that of the result.
  const auto n = static_cast<long double>(in.size());
  long double sizes = 0;
  for (size_t i = 0; i < in.size(); ++i)
    sizes +=
        std::fabs(reduce == DW_REDUCE_PREMUL_SUM ? in[i].real * factors[i].real
                                                 : in[i].real);
  if (reduce == DW_REDUCE_AVG) sizes /= n;
  if (reduce == DW_REDUCE_PRODUCT) sizes = std::fabs(exact);
  const long double off = n * epsilon(dtype) * sizes;
  return {exact - off, exact + off, false};
}

void reduce_slowly(int dtype, uint16_t reduce,
                   const std::vector<const char*>& in,
                   const std::vector<const char*>& factors, size_t count,
                   char* out) {
  const size_t size = element_size(dtype);
  std::vector<Number> numbers(in.size()), scales;
  for (const char* factor : factors) scales.push_back(load(dtype, factor));
  for (size_t i = 0; i < count; ++i) {
    for (size_t r = 0; r < in.size(); ++r)
      numbers[r] = load(dtype, in[r] + i * size);
    store(dtype, reduced(dtype, reduce, numbers, scales), out + i * size);
  }
}

}  // namespace distwrap::conformance
