// A library of operators for library_test.cc: one::shared, and a kernel for an
// operator of library_two.cc.
#include "distwrap/autograd.h"
#include "distwrap/function.h"
#include "distwrap/registration.h"

#include <stdexcept>

namespace {

using namespace distwrap;            // NOLINT(google-build-using-namespace)
using namespace distwrap::dispatch;  // NOLINT(google-build-using-namespace)

int64_t one(const Tensor& /*x*/) { return 1; }
int64_t broken(const Tensor& /*x*/) { throw std::runtime_error("of one"); }

struct Same : autograd::Function<Same> {
  static absl::StatusOr<Tensor> forward(autograd::Ctx& /*ctx*/,
                                        const Tensor& x) {
    return x;
  }
  static autograd::Grads backward(autograd::Ctx& /*ctx*/,
                                  absl::Span<const Tensor> grads) {
    return {grads[0]};
  }
};
absl::StatusOr<Tensor> same(const Tensor& x) { return Same::apply(x); }

DW_OPERATORS(lib) {
  Namespace own = lib.own("one");
  own.def("shared(Tensor x) -> int");
  own.def("broken(Tensor x) -> int");
  own.def("same(Tensor x) -> Tensor");
  own.impl("shared", {kDense, kMeta}, kernel<&one>());
  own.impl("broken", {kDense, kMeta}, kernel<&broken>());
  own.impl("same", kAutograd, kernel<&same>());
  lib.impl("two::shared", {kDense, kMeta}, kernel<&one>());
}

}  // namespace
