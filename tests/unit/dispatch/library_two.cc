// A library of operators for library_test.cc: two::shared, and a kernel for an
// operator of library_one.cc.
#include "distwrap/registration.h"

namespace {

using namespace distwrap;            // NOLINT(google-build-using-namespace)
using namespace distwrap::dispatch;  // NOLINT(google-build-using-namespace)

int64_t two(const Tensor& /*x*/) { return 2; }

DW_OPERATORS(lib) {
  Namespace own = lib.own("two");
  own.def("shared(Tensor x) -> int");
  own.impl("shared", {kDense, kCpu}, kernel<&two>());
  lib.impl("one::shared", {kDense, kCpu}, kernel<&two>());
}

}  // namespace
