/* A library that is no plugin and nevertheless defines the entry symbol. */
#include "distwrap/abi/plugin.h"

__attribute__((visibility("default"))) int dw_test_lent(void);
__attribute__((visibility("default"))) const dw_backend_api* dw_plugin_query_v1(
    const dw_host_info* host);

int dw_test_lent(void) { return 1; }
const dw_backend_api* dw_plugin_query_v1(const dw_host_info* host) {
  (void)host;
  return NULL;
}
