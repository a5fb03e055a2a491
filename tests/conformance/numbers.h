// Elements of every dtype as exact numbers: the arithmetic of the reference.
#ifndef DISTWRAP_TESTS_CONFORMANCE_NUMBERS_H_
#define DISTWRAP_TESTS_CONFORMANCE_NUMBERS_H_

#include "distwrap/abi/types.h"

#include <cstddef>
#include <cstdint>

namespace distwrap::conformance {

inline constexpr int kDtypes = DW_DTYPE_F8E5M2 + 1;
inline constexpr uint16_t kReductions = DW_REDUCE_PREMUL_SUM + 1;

// `whole` for integers and bool, `real` for floats.
struct Number {
  __int128 whole = 0;
  long double real = 0;
};

bool is_float(int dtype);
bool is_signed(int dtype);
size_t element_size(int dtype);
// The distance of 1 from the next larger number of a float type.
long double epsilon(int dtype);
const char* dtype_text(int dtype);
const char* reduction_text(uint16_t reduce);

Number load(int dtype, const char* at);
// Integers wrap, floats round once, to nearest even; bool is 0 or 1.
void store(int dtype, const Number& number, char* at);

// Whether reductions.def defines the reduction for the dtype.
bool is_defined(uint16_t reduce, int dtype);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_NUMBERS_H_
