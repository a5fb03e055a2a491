// Elementary functions for any x86-64 processor.
#define DW_MATH_BYTES 16
#include "cpu/sleef_functions.h"
#include "cpu/vector_math_tables.h"

namespace distwrap::cpu {

const VectorMath kMathSse2 = {
    "sse2",
    {exp_f32, log_f32, tanh_f32, erf_f32, sin_f32, cos_f32},
    {exp_f64, log_f64, tanh_f64, erf_f64, sin_f64, cos_f64}};

}  // namespace distwrap::cpu
