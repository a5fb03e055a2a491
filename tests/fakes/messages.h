// A backend that has only send and recv, between ranks that are threads of one
// process.
//
// There are three variants: one completes in the thread of the second of the
// two ranks and knows only bytes; one cannot wait inside `submit`; one
// completes only in `progress` and sometimes returns DW_AGAIN.
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

// The bytes that ranks of this process have sent with these backends.
uint64_t bytes_sent();

}  // namespace distwrap::fakes

#endif  // DISTWRAP_TESTS_FAKES_MESSAGES_H_
