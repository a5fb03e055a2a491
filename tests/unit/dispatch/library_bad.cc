// A library whose block fails half way, for library_test.cc.
#include "distwrap/registration.h"

namespace {

using namespace distwrap::dispatch;  // NOLINT(google-build-using-namespace)

DW_OPERATORS(lib) {
  Namespace own = lib.own("bad");
  own.def("first(Tensor x) -> int");
  own.def("second(Tensor x -> int");
}

}  // namespace
