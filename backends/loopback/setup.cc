// Making and destroying a communicator: one empty round, since there is no
// peer.
#include "loopback.h"
#include "sdk/fail.h"
#include "sdk/open.h"

#include <new>

struct dw_setup {
  const dw_host_api* host;
};

namespace loopback {

int32_t setup_begin(dw_backend* backend, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  dw_setup_info read;
  if (int32_t code = dw_read_setup(&read, info, nullptr, 0, error)) return code;
  if (read.size != 1 || read.rank != 0)
    return dw_fail(error, DW_UNIMPLEMENTED, DW_REASON_UNSUPPORTED, -1, 0,
                   "loopback: a group has one rank; use another backend for "
                   "more");
  auto* made = new (std::nothrow) dw_setup{backend->host};
  if (made == nullptr)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "loopback: no memory for the communicator");
  *setup = made;
  *out = {};
  return DW_OK;
}

int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t n, dw_blob* out,
                   dw_setup_result* result, dw_error* error) {
  const dw_host_api* const host = setup->host;
  delete setup;
  if (n != 1 || in[0].size != 0)
    return dw_fail(error, DW_INVALID_ARGUMENT, DW_REASON_INVALID_ARGUMENT, -1,
                   0, "loopback: a round has one blob, and it is empty");
  auto* made = new (std::nothrow) dw_comm{host};
  if (made == nullptr)
    return dw_fail(error, DW_RESOURCE_EXHAUSTED, DW_REASON_OUT_OF_MEMORY, -1, 0,
                   "loopback: no memory for the communicator");
  *out = {};
  *result = {made, nullptr};
  return DW_DONE;
}

void setup_cancel(dw_setup* setup) { delete setup; }

int32_t comm_abort(dw_comm* comm, const dw_error* /*why*/) {
  comm->aborted.store(true, std::memory_order_relaxed);
  return DW_OK;
}

int32_t comm_destroy(dw_comm* comm, int64_t /*deadline_ns*/,
                     dw_error* /*error*/) {
  delete comm;
  return DW_OK;
}

}  // namespace loopback
