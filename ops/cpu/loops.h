// Loops over contiguous elements, compiled for several kinds of processors with
// equal bits on all of them (a NaN may have another payload).
//
// A Loop computes n elements: p[0] is the output, the other pointers are inputs
// in the order of the operator's arguments. An output may be one of the inputs,
// exactly. 16-bit floats have no loops: callers widen them to f32.
//
// Threads: any.
#ifndef DISTWRAP_OPS_CPU_LOOPS_H_
#define DISTWRAP_OPS_CPU_LOOPS_H_

#include "distwrap/scalar.h"
#include "distwrap/types.h"

#include <cstdint>

namespace distwrap::cpu {

using Loop = void (*)(void* const* p, int64_t n, const void* params);

enum class Op : uint8_t {
  // one input
  kNeg,
  kAbs,
  kSign,
  kRelu,
  kSqrt,
  kRsqrt,
  kExp,
  kLog,
  kSin,
  kCos,
  kTanh,
  kSigmoid,
  kGelu,
  kSilu,
  // two inputs; kAdd has a Number that the second one is multiplied by
  kAdd,
  kMul,
  kDiv,
  kMaximum,
  kEq,            // bool
  kLt,            // bool
  kGeluBackward,  // grad, self
  kSiluBackward,  // grad, self
  // p: self, mean, variance (all read and written), grad; AdamwParams
  kAdamw,
};

// One number of any type, in the element type of a loop.
struct Number {
  alignas(8) unsigned char bytes[8] = {};
  static Number of(const Scalar& value, DType dtype);
};

// The numbers of one step of AdamW, after Loshchilov and Hutter 2019.
struct AdamwParams {
  double decay = 1;  // 1 - lr * weight_decay
  double beta1 = 0, beta2 = 0;
  double step_size = 0;   // lr / (1 - beta1^step)
  double correction = 1;  // 1 / sqrt(1 - beta2^step)
  double eps = 0;
};

// Reductions and rows of fused operators in f32 or f64.
template <class T>
struct Rows {
  // At most kBlock elements, in an order that is the same everywhere.
  T (*sum)(const T* x, int64_t n);
  T (*dot)(const T* x, const T* y, int64_t n);
  // The sum of (x[i] - mean)^2.
  T (*squares)(const T* x, T mean, int64_t n);
  // A NaN wins; n > 0.
  T (*max)(const T* x, int64_t n);
  // x[i] * factor.
  void (*scale)(T* out, const T* x, T factor, int64_t n);
  // (x[i] - a) - b.
  void (*shift)(T* out, const T* x, T a, T b, int64_t n);
  // (x[i] - mean) * factor * weight[i] + bias[i]; without those that are null.
  void (*normalize)(T* out, const T* x, const T* weight, const T* bias, T mean,
                    T factor, int64_t n);
  // (x[i] - a - y[i] * b) * factor.
  void (*project)(T* out, const T* x, const T* y, T a, T b, T factor,
                  int64_t n);
  // (x[i] - a) * y[i].
  void (*shift_mul)(T* out, const T* x, const T* y, T a, int64_t n);
};

struct Loops {
  const char* name;
  // nullptr where the operator does not serve the type.
  Loop (*find)(Op op, DType dtype);
  // Chooses between two tensors by bytes; `size` is that of an element.
  Loop (*where)(int64_t size);
  void (*widen_f16)(float* out, const uint16_t* in, int64_t n);
  void (*widen_bf16)(float* out, const uint16_t* in, int64_t n);
  void (*narrow_f16)(uint16_t* out, const float* in, int64_t n);
  void (*narrow_bf16)(uint16_t* out, const float* in, int64_t n);
  Rows<float> f32;
  Rows<double> f64;
};

// The loops for this processor, or those that use_loops set.
const Loops& loops();
// The loops that are the `index`-th best on this processor; nullptr after the
// last ones.
const Loops* loops_table(int index);
// For tests: nullptr brings back the best ones.
void use_loops(const Loops* table);

template <class T>
const Rows<T>& rows();
template <>
inline const Rows<float>& rows<float>() {
  return loops().f32;
}
template <>
inline const Rows<double>& rows<double>() {
  return loops().f64;
}

// Sums are made of blocks of this many elements.
inline constexpr int64_t kBlock = 1024;

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_LOOPS_H_
