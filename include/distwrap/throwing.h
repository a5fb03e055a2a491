// The operators for programs that use exceptions: results are plain tensors,
// arithmetic has its signs, and an error is a StatusError.
//
//   using namespace distwrap::throwing;
//   Tensor off = mm(x, w) - y;
//   Tensor loss = mean(off * off);
//   check(distwrap::autograd::backward({loss}));
//
// Threads and ownership: as in distwrap/ops.h.
#ifndef DISTWRAP_THROWING_H_
#define DISTWRAP_THROWING_H_

#include "distwrap/ops.h"

#include <utility>

namespace distwrap::throwing {

// The value of a result; throws its error.
template <class T>
T unwrap(absl::StatusOr<T> result) {
  if (!result.ok()) throw StatusError(std::move(result).status());
  return *std::move(result);
}
inline void check(const absl::Status& status) {
  if (!status.ok()) throw StatusError(status);
}
inline void unwrap(const absl::Status& status) { check(status); }

#define DW_OP(name, overload, schema, result, params, args) \
  inline result name params { return unwrap(ops::name args); }
#include "distwrap/ops.def"

#define DW_INFIX(sign, name)                                      \
  inline Tensor operator sign(const Tensor& a, const Tensor& b) { \
    return name(a, b);                                            \
  }                                                               \
  inline Tensor operator sign(const Tensor& a, const Scalar& b) { \
    return name(a, b);                                            \
  }
DW_INFIX(+, add)
DW_INFIX(-, sub)
DW_INFIX(*, mul)
DW_INFIX(/, div)
#undef DW_INFIX
inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator+(const Scalar& a, const Tensor& b) { return add(b, a); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return mul(b, a); }
inline Tensor operator-(const Scalar& a, const Tensor& b) {
  return add(neg(b), a);
}
inline Tensor operator/(const Scalar& a, const Tensor& b) {
  return div(full_like(b, a), b);
}

}  // namespace distwrap::throwing

#endif  // DISTWRAP_THROWING_H_
