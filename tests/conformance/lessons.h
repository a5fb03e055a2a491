// The mistakes of other bindings of engines, each as a check with its name.
#ifndef DISTWRAP_TESTS_CONFORMANCE_LESSONS_H_
#define DISTWRAP_TESTS_CONFORMANCE_LESSONS_H_

#include "checks.h"

namespace distwrap::conformance {

void check_inputs(const dw_backend_api&, int, const Limits&, Findings&);
void check_share_moved(const dw_backend_api&, int, const Limits&, Findings&);
void check_averages(const dw_backend_api&, int, const Limits&, Findings&);
void check_scaling(const dw_backend_api&, int, const Limits&, Findings&);
void check_forms(const dw_backend_api&, int, const Limits&, Findings&);

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_LESSONS_H_
