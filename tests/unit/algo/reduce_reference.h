// The result of a reduction, element by element, in numbers wide enough to
// exclude the mistakes that kernels could make.
#ifndef DISTWRAP_TESTS_UNIT_ALGO_REDUCE_REFERENCE_H_
#define DISTWRAP_TESTS_UNIT_ALGO_REDUCE_REFERENCE_H_

#include "distwrap/abi/types.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace distwrap::algo::testing {

enum class Family { kInteger, kFloat, kBool };

struct TypeInfo {
  const char* name;
  dw_dtype dtype;
  size_t bytes;
  Family family;
};
extern const std::vector<TypeInfo> kTypes;

struct ReductionInfo {
  const char* name;
  uint16_t reduce;
};
extern const std::vector<ReductionInfo> kReductions;

// Whether reductions.def defines the pair.
bool exists(const TypeInfo& type, uint16_t reduce);

// `count` elements: small numbers, mixed with difficult ones (extremes, NaN,
// infinities, subnormals, arbitrary bits).
std::string random_elements(const TypeInfo& type, size_t count,
                            std::mt19937_64& random);

// The operand that dw_reduce_fn wants, as bytes.
std::string random_operand(const TypeInfo& type, uint16_t reduce,
                           std::mt19937_64& random);

std::string reference(const TypeInfo& type, uint16_t reduce,
                      const std::vector<std::string>& inputs,
                      const std::string& operand);

// The index of the first element that differs, or -1. NaNs are equal, and so
// are the zeros of min and max.
ptrdiff_t first_difference(const TypeInfo& type, uint16_t reduce,
                           const char* got, const std::string& want);

}  // namespace distwrap::algo::testing

#endif  // DISTWRAP_TESTS_UNIT_ALGO_REDUCE_REFERENCE_H_
