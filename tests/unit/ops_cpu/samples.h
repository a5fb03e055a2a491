// Tensors for tests of kernels: any values in any type and layout, written and
// read one element at a time by code that shares nothing with the kernels.
#ifndef DISTWRAP_TESTS_UNIT_OPS_CPU_SAMPLES_H_
#define DISTWRAP_TESTS_UNIT_OPS_CPU_SAMPLES_H_

#include "distwrap/arguments.h"
#include "distwrap/status.h"
#include "distwrap/tensor.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace distwrap::cpu {

using Values = std::vector<double>;

inline const std::vector<DType> kFloats = {DType::kF32, DType::kF64,
                                           DType::kF16, DType::kBF16};
inline const std::vector<DType> kIntegers = {
    DType::kU8,  DType::kI8,  DType::kU16, DType::kI16,
    DType::kU32, DType::kI32, DType::kU64, DType::kI64};
std::vector<DType> numbers();
std::vector<DType> all_types();

// The element at a row-major position.
double element(const Tensor& tensor, int64_t position);
void set_element(const Tensor& tensor, int64_t position, double value);
// All elements in row-major order.
Values values_of(const Tensor& tensor);
// A number as the type holds it.
double rounded(DType dtype, double value);

// A row-major tensor; values are rounded to the type.
Tensor tensor_of(Dims sizes, const Values& values, DType dtype = DType::kF32);
// Numbers from about -2 to 2 that depend on `seed`; whole ones, from 0 on for
// types without a sign, in integers.
Tensor sample(Dims sizes, DType dtype = DType::kF32, int seed = 1);
// Tensors of equal elements in other layouts: row-major, column-major, with
// gaps and an offset, backwards.
std::vector<Tensor> layouts(const Tensor& tensor);
// A view with the last two dimensions swapped; sizes expanded from extents of
// 1.
Tensor swapped(const Tensor& tensor);
Tensor expanded(const Tensor& tensor, Dims sizes);

// The largest relative error of a result that was computed in the type's
// compute type and rounded once.
double precision(DType dtype);

// Every element is within `tolerance` times the larger of 1 and the expected
// value; NaN and infinities are equal.
void expect_near(const Tensor& tensor, const Values& expected, double tolerance,
                 const std::string& what);
// Two tensors have equal bits, sizes and types.
void expect_same_bits(const Tensor& a, const Tensor& b,
                      const std::string& what);

template <class T>
T ok(absl::StatusOr<T> result) {
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : T();
}

void expect_refused(const absl::Status& status, Reason reason,
                    const std::string& text);

}  // namespace distwrap::cpu

#endif  // DISTWRAP_TESTS_UNIT_OPS_CPU_SAMPLES_H_
