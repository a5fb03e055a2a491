// Life of an instance, and what it promises.
#include "distwrap/abi/read.h"
#include "loopback.h"
#include "sdk/fail.h"

#include <new>

namespace loopback {

int32_t open(const dw_host_api* /*host*/, const dw_open_info* info,
             dw_backend** backend, dw_error* error) {
  dw_open_info read;
  if (int32_t code =
          dw_read_struct(&read, sizeof read, info, DW_OPEN_INFO_SIZE_1_0))
    return dw_fail(error, code, DW_REASON_INVALID_ARGUMENT, -1, 0,
                   "loopback: the open info has a size or a field that is "
                   "not known");
  if (read.device_type != DW_DEVICE_CPU)
    return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0,
                   "loopback: only host memory is supported");
  if (read.n_hints != 0)
    return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1,
                   0, "loopback: there are no hints");
  auto* made = new (std::nothrow) dw_backend;
  if (made == nullptr)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "loopback: no memory for the backend");
  *backend = made;
  return DW_OK;
}

void close(dw_backend* backend) { delete backend; }

int32_t caps(dw_backend* /*backend*/, const dw_caps_row** rows,
             uint64_t* n_rows, dw_error* /*error*/) {
  static constexpr uint64_t kAllDtypes = 0
#define DW_DTYPE(index, name, enumerator, text, code, bits, storage) \
  | DW_BIT(index)
#include "distwrap/abi/dtypes.def"
      ;
  static constexpr uint32_t kNone = DW_BIT(DW_REDUCE_NONE);
  static constexpr uint32_t kHost = DW_BIT(DW_DEVICE_CPU);
  static constexpr dw_caps_row kRows[] = {
      {DW_BIT(DW_OP_BARRIER), 0, kNone, kFlags, kHost, 0, 0, 0},
      {kCopies, kAllDtypes, kNone, kFlags, kHost, 0, 0, 0},
      {kReductions, kAllDtypes, kReduceOps, kFlags, kHost, 0, 0, 0},
  };
  *rows = kRows;
  *n_rows = sizeof kRows / sizeof kRows[0];
  return DW_OK;
}

}  // namespace loopback
