// Products of matrices by CBLAS, in the caller's thread.
//
// Threads: any, several at once. Ownership: none.
#ifndef DISTWRAP_OPS_CPU_PRODUCTS_H_
#define DISTWRAP_OPS_CPU_PRODUCTS_H_

#include <cstdint>

namespace distwrap::cpu {

// A matrix in memory. Rows lie `step` elements apart, or columns where it is
// transposed; the elements of a row (a column) lie side by side.
template <class T>
struct Matrix {
  T* data;
  int64_t step;
  bool transposed = false;
};

// Whether the library takes matrices of these extents and steps.
bool product_fits(int64_t rows, int64_t columns, int64_t inner, int64_t step);

// out = alpha * a b + beta * out; T is float or double. `a` has `rows` rows and
// `inner` columns; `out`, not transposed, has `columns` columns.
template <class T>
void product(int64_t rows, int64_t columns, int64_t inner, T alpha,
             Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> out);

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_PRODUCTS_H_
