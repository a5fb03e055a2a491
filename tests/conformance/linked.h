// The entries of the backends that are linked into tests.
#ifndef DISTWRAP_TESTS_CONFORMANCE_LINKED_H_
#define DISTWRAP_TESTS_CONFORMANCE_LINKED_H_

#include "distwrap/abi/plugin.h"

extern "C" {
const dw_backend_api* dw_plugin_query_v1_gloo(const dw_host_info*);
const dw_backend_api* dw_plugin_query_v1_loopback(const dw_host_info*);
const dw_backend_api* dw_plugin_query_v1_shm(const dw_host_info*);
const dw_backend_api* dw_plugin_query_v1_ucx(const dw_host_info*);
}

#endif  // DISTWRAP_TESTS_CONFORMANCE_LINKED_H_
