// The tables of elementary functions, one for each width of registers.
#ifndef DISTWRAP_OPS_CPU_VECTOR_MATH_TABLES_H_
#define DISTWRAP_OPS_CPU_VECTOR_MATH_TABLES_H_

#include "cpu/vector_math.h"

namespace distwrap::cpu {

extern const VectorMath kMathSse2, kMathAvx, kMathAvx512;

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_VECTOR_MATH_TABLES_H_
