// Buffers of more than 2^31 bytes.
#ifndef DISTWRAP_TESTS_CONFORMANCE_LARGE_H_
#define DISTWRAP_TESTS_CONFORMANCE_LARGE_H_

#include "checks.h"

namespace distwrap::conformance {

// In place and with two ranks, to use as little memory as possible.
void check_large_broadcast(const dw_backend_api&, int, const Limits&,
                           Findings&);
void check_large_all_reduce(const dw_backend_api&, int, const Limits&,
                            Findings&);
void check_large_all_gather(const dw_backend_api&, int, const Limits&,
                            Findings&);

// Whether the machine has memory for one of them.
bool has_memory_for_large();

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_LARGE_H_
