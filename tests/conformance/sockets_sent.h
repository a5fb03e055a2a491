// Bytes that the TCP sockets of this process have sent.
#ifndef DISTWRAP_TESTS_CONFORMANCE_SOCKETS_SENT_H_
#define DISTWRAP_TESTS_CONFORMANCE_SOCKETS_SENT_H_

#include <cstdint>

namespace distwrap::conformance {

// The bytes of sockets that are open now.
uint64_t bytes_sent_by_sockets();

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_SOCKETS_SENT_H_
