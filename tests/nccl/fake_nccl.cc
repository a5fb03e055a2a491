#include "fake_nccl.h"

#include "distwrap/abi/note.h"

extern "C" const dw_backend_api* dw_plugin_query_v1_nccl(const dw_host_info*);

namespace distwrap::nccl_test {

const dw_backend_api& nccl() {
  static const dw_backend_api* const kTable = [] {
    dw_host_info host = {};
    host.struct_size = sizeof host;
    host.abi_major = DW_ABI_MAJOR;
    return dw_plugin_query_v1_nccl(&host);
  }();
  return *kTable;
}

std::string fake_nccl(int version) {
  return std::string(FAKE_LIBRARIES "/libdistwrap_fake_nccl_") +
         std::to_string(version) + ".so";
}

std::string fake_driver() { return FAKE_LIBRARIES "/libdistwrap_fake_cuda.so"; }

std::vector<int> versions() { return {21903, 22304, 22803, 22902, 23203}; }

}  // namespace distwrap::nccl_test
