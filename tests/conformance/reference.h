// The slow reference of all reductions, one element at a time.
#ifndef DISTWRAP_TESTS_CONFORMANCE_REFERENCE_H_
#define DISTWRAP_TESTS_CONFORMANCE_REFERENCE_H_

#include "numbers.h"

#include <vector>

namespace distwrap::conformance {

// Reduces one element of each rank, in rank order: integers modulo 2^128 and
// wrapped at the end, floats in long double and rounded once. avg divides by
// the number of elements. `factors`, by rank, are for premul_sum only.
Number reduced(int dtype, uint16_t reduce, const std::vector<Number>& in,
               const std::vector<Number>& factors);

// The floats that a backend with DW_BACKEND_OWN_FLOATS may give for a
// reduction.
struct Range {
  long double low = 0, high = 0;  // low > high: no number
  bool nan = false;               // NaN, too

  bool has(long double number) const;
};
Range allowed(int dtype, uint16_t reduce, const std::vector<Number>& in,
              const std::vector<Number>& factors);

// Reduces arrays in memory; `factors` may be empty.
void reduce_slowly(int dtype, uint16_t reduce,
                   const std::vector<const char*>& in,
                   const std::vector<const char*>& factors, size_t count,
                   char* out);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_REFERENCE_H_
