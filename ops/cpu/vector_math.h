// Elementary functions of arrays.
//
// Every element is computed alike, wherever it stands and whichever processor
// runs: all tables below give the same bits.
//
// Threads: any. Ownership: none. `out` may be `in`.
#ifndef DISTWRAP_OPS_CPU_VECTOR_MATH_H_
#define DISTWRAP_OPS_CPU_VECTOR_MATH_H_

#include <cstdint>

namespace distwrap::cpu {

template <class T>
struct Functions {
  using Function = void (*)(T* out, const T* in, int64_t n);
  // exp(in[i] - shift).
  void (*exp)(T* out, const T* in, T shift, int64_t n);
  Function log, tanh, erf, sin, cos;
};

struct VectorMath {
  const char* name;
  Functions<float> f32;
  Functions<double> f64;
};

// The table for this processor, or the one that use_vector_math set.
const VectorMath& vector_math();
// The table that is the `index`-th best on this processor; nullptr after the
// last one.
const VectorMath* vector_math_table(int index);
// For tests: nullptr brings back the best one.
void use_vector_math(const VectorMath* table);

template <class T>
const Functions<T>& functions();
template <>
inline const Functions<float>& functions<float>() {
  return vector_math().f32;
}
template <>
inline const Functions<double>& functions<double>() {
  return vector_math().f64;
}

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_VECTOR_MATH_H_
