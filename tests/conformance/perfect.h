// A backend that does everything, slowly: ranks are threads of one process, and
// whoever comes last does the work of all by the reference. The suite is
// checked on it, and breaks it.
#ifndef DISTWRAP_TESTS_CONFORMANCE_PERFECT_H_
#define DISTWRAP_TESTS_CONFORMANCE_PERFECT_H_

#include "distwrap/abi/plugin.h"

namespace distwrap::conformance {

const dw_backend_api& perfect_table();

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_PERFECT_H_
