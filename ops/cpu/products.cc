#include "cpu/products.h"

#include <algorithm>
#include <cblas.h>
#include <limits>

namespace distwrap::cpu {
namespace {

CBLAS_TRANSPOSE order_of(bool transposed) {
  return transposed ? CblasTrans : CblasNoTrans;
}

}  // namespace

bool product_fits(int64_t rows, int64_t columns, int64_t inner, int64_t step) {
  return std::max({rows, columns, inner, step}) <=
         std::numeric_limits<int>::max();
}

template <>
void product<float>(int64_t rows, int64_t columns, int64_t inner, float alpha,
                    Matrix<const float> a, Matrix<const float> b, float beta,
                    Matrix<float> out) {
  cblas_sgemm(CblasRowMajor, order_of(a.transposed), order_of(b.transposed),
              static_cast<int>(rows), static_cast<int>(columns),
              static_cast<int>(inner), alpha, a.data, static_cast<int>(a.step),
              b.data, static_cast<int>(b.step), beta, out.data,
              static_cast<int>(out.step));
}

template <>
void product<double>(int64_t rows, int64_t columns, int64_t inner, double alpha,
                     Matrix<const double> a, Matrix<const double> b,
                     double beta, Matrix<double> out) {
  cblas_dgemm(CblasRowMajor, order_of(a.transposed), order_of(b.transposed),
              static_cast<int>(rows), static_cast<int>(columns),
              static_cast<int>(inner), alpha, a.data, static_cast<int>(a.step),
              b.data, static_cast<int>(b.step), beta, out.data,
              static_cast<int>(out.step));
}

}  // namespace distwrap::cpu
