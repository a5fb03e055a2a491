// Life of an instance, and what it promises.
#include "backend.h"

#include "call.h"
#include "distwrap/abi/read.h"
#include "sdk/fail.h"
#include "sdk/read_op.h"

#include <new>

namespace gloo_backend {

int32_t open(const dw_host_api* host, const dw_open_info* given,
             dw_backend** backend, dw_error* error) {
  dw_open_info info;
  if (int32_t code =
          dw_read_struct(&info, sizeof info, given, DW_OPEN_INFO_SIZE_1_0))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "gloo: the open info has a size or a field that is not "
                   "known");
  if (info.device_type != DW_DEVICE_CPU)
    return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0,
                   "gloo: only host memory is supported");
  if (dw_check_extensions(info.next) != DW_OK)
    return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0,
                   "gloo: no extension is supported");
  if (dw_unknown_hint(info.hints, info.n_hints, kHints, 1) != nullptr)
    return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1,
                   0, "gloo: the only hint is 'interface'");
  auto* made = new (std::nothrow) dw_backend;
  if (made == nullptr)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "gloo: no memory for the backend");
  made->host = host;
  const dw_str interface = dw_find_hint(info.hints, info.n_hints, kHints[0]);
  made->interface = interface.data == nullptr
                        ? "lo"
                        : std::string(interface.data, interface.size);
  *backend = made;
  return DW_OK;
}

void close(dw_backend* backend) { delete backend; }

int32_t caps(dw_backend* /*backend*/, const dw_caps_row** rows,
             uint64_t* n_rows, dw_error* /*error*/) {
  static constexpr uint32_t kNone = DW_BIT(DW_REDUCE_NONE);
  static constexpr uint32_t kHost = DW_BIT(DW_DEVICE_CPU);
  static constexpr dw_caps_row kRows[] = {
      {DW_BIT(DW_OP_BARRIER), 0, kNone, kFlags, kHost, 0, 0, 0},
      {kMoves, kDtypes, kNone, kFlags, kHost, 0, 0, 0},
      {kReductions, kDtypes, kReduceOps, kFlags, kHost, 0, 0, 0},
  };
  *rows = kRows;
  *n_rows = sizeof kRows / sizeof kRows[0];
  return DW_OK;
}

}  // namespace gloo_backend
