// A backend that has nothing but send and recv, between ranks that are threads
// of one process.
//
// Three of them: one that completes in the thread of whoever comes second and
// knows bytes only; one that cannot wait inside `submit`; one that completes in
// `progress` alone and is out of resources now and then.
#ifndef DISTWRAP_TESTS_FAKES_MESSAGES_H_
#define DISTWRAP_TESTS_FAKES_MESSAGES_H_

#include "distwrap/abi/plugin.h"

extern "C" {
// u8, waits inside `submit`.
const dw_backend_api* dw_plugin_query_v1_messages(const dw_host_info* host);
// u8, u16, f32, i64; never waits.
const dw_backend_api* dw_plugin_query_v1_messages_async(
    const dw_host_info* host);
// All dtypes; completes in `progress`.
const dw_backend_api* dw_plugin_query_v1_messages_polled(
    const dw_host_info* host);
}

namespace distwrap::fakes {

// Bytes that ranks of this process have sent by these backends so far.
uint64_t bytes_sent();

}  // namespace distwrap::fakes

#endif  // DISTWRAP_TESTS_FAKES_MESSAGES_H_
