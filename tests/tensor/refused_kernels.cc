// Kernels that must not compile, each with the reason in the error; CASE 0 does
// compile. tests/tensor/must_not_compile.sh tries them.
#include "distwrap/registration.h"

using distwrap::Tensor;
using distwrap::dispatch::kernel;

#if CASE == 0
static int64_t refused(const Tensor& /*x*/) { return 1; }
#elif CASE == 1  // a kernel takes const Tensor&
static int64_t refused(Tensor /*x*/) { return 1; }
#elif CASE == 2  // this C++ type has no schema type
static int64_t refused(float /*x*/) { return 1; }
#elif CASE == 3  // this C++ type has no schema type
static int refused(const Tensor& /*x*/) { return 1; }
#endif

const auto made = kernel<&refused>();
