// A complete but slow backend: ranks are threads of one process, and the last
// rank to come performs the operation for all by the reference. The suite is
// checked against it and against broken variants of it.
#ifndef DISTWRAP_TESTS_CONFORMANCE_PERFECT_H_
#define DISTWRAP_TESTS_CONFORMANCE_PERFECT_H_

#include "distwrap/abi/plugin.h"

namespace distwrap::conformance {

const dw_backend_api& perfect_table();

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_PERFECT_H_
