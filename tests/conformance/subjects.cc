#include "subjects.h"

extern "C" {
const dw_backend_api* dw_plugin_query_v1_gloo(const dw_host_info*);
const dw_backend_api* dw_plugin_query_v1_loopback(const dw_host_info*);
}

namespace distwrap::conformance {

std::vector<Subject> subjects() {
  return {
      {"gloo", dw_plugin_query_v1_gloo, {1, 2, 3, 4}},
      {"loopback", dw_plugin_query_v1_loopback, {1}},
  };
}

}  // namespace distwrap::conformance
