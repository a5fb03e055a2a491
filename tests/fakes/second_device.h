// A backend for host memory that claims to serve another device:
//
//   const dw_backend_api& api = fakes::on_cuda<perfect_table>();
#ifndef DISTWRAP_TESTS_FAKES_SECOND_DEVICE_H_
#define DISTWRAP_TESTS_FAKES_SECOND_DEVICE_H_

#include "distwrap/abi/read.h"
#include "fakes/compose_over.h"

#include <vector>

namespace distwrap::fakes {

template <TableFunction kInner>
struct OnCuda {
  static int32_t open(const dw_host_api* host, const dw_open_info* info,
                      dw_backend** backend, dw_error* error) {
    dw_open_info read;
    const int32_t code =
        dw_read_struct(&read, sizeof read, info, DW_OPEN_INFO_SIZE_1_0);
    if (code != DW_OK) return code;
    read.device_type = DW_DEVICE_CPU;
    return kInner().open(host, &read, backend, error);
  }

  static int32_t caps(dw_backend* backend, const dw_caps_row** rows,
                      uint64_t* n, dw_error* error) {
    const dw_caps_row* all;
    uint64_t n_all;
    if (int32_t code = kInner().caps(backend, &all, &n_all, error)) return code;
    static const std::vector<dw_caps_row> moved = [&] {
      std::vector<dw_caps_row> made(all, all + n_all);
      for (dw_caps_row& row : made) row.memory = DW_BIT(DW_DEVICE_CUDA);
      return made;
    }();
    *rows = moved.data();
    *n = moved.size();
    return DW_OK;
  }
};

template <TableFunction kInner>
const dw_backend_api& on_cuda() {
  static const dw_backend_api table = [] {
    dw_backend_api api = kInner();
    api.name = {"faux", 4};
    api.devices = DW_BIT(DW_DEVICE_CUDA);
    api.open = OnCuda<kInner>::open;
    api.caps = OnCuda<kInner>::caps;
    return api;
  }();
  return table;
}

}  // namespace distwrap::fakes

#endif  // DISTWRAP_TESTS_FAKES_SECOND_DEVICE_H_
