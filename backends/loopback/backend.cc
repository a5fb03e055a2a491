// Opening and closing an instance, and its promises.
#include "loopback.h"
#include "promises.h"
#include "sdk/fail.h"
#include "sdk/open.h"

#include <new>

namespace loopback {

int32_t open(const dw_host_api* host, const dw_open_info* info,
             dw_backend** backend, dw_error* error) {
  dw_open_info read;
  if (int32_t code = dw_read_open(&read, info, nullptr, 0, error)) return code;
  auto* made = new (std::nothrow) dw_backend{host};
  if (made == nullptr)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "loopback: no memory for the backend");
  *backend = made;
  return DW_OK;
}

void close(dw_backend* backend) { delete backend; }

int32_t caps(dw_backend* /*backend*/, const dw_caps_row** rows,
             uint64_t* n_rows, dw_error* /*error*/) {
  *rows = kRows.data();
  *n_rows = kRows.size();
  return DW_OK;
}

}  // namespace loopback
