// A plugin whose library uses an engine in every slot of the table, and which
// can fail in the slot that GUARD_TEST_FAILS names. Otherwise it is the
// loopback backend.
#include "loopback.h"
#include "sdk/entry.h"
#include "sdk/fail.h"

#include <cstdlib>
#include <cstring>

extern "C" long below_send();
extern "C" long ncclSend(long, long, long);

namespace {

int32_t use_engine(const char* slot, dw_error* error) {
  const char* const fails = std::getenv("GUARD_TEST_FAILS");
  if (fails != nullptr && std::strcmp(fails, slot) == 0)
    return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, 0,
                   "below: fails on purpose");
  if (below_send() == 77 && ncclSend(1, 2, 3) == 77) return DW_OK;
  return dw_fail(error, DW_INTERNAL, DW_REASON_BACKEND_FAILED, -1, 0,
                 "below: the engine was refused");
}

int32_t open(const dw_host_api* host, const dw_open_info* info,
             dw_backend** backend, dw_error* error) {
  const int32_t code = use_engine("open", error);
  return code != DW_OK ? code : loopback::open(host, info, backend, error);
}

int32_t caps(dw_backend* backend, const dw_caps_row** rows, uint64_t* count,
             dw_error* error) {
  const int32_t code = use_engine("caps", error);
  return code != DW_OK ? code : loopback::caps(backend, rows, count, error);
}

int32_t setup_begin(dw_backend* backend, const dw_setup_info* info,
                    dw_setup** setup, dw_blob* out, dw_error* error) {
  const int32_t code = use_engine("setup_begin", error);
  return code != DW_OK
             ? code
             : loopback::setup_begin(backend, info, setup, out, error);
}

int32_t setup_step(dw_setup* setup, const dw_blob* in, uint64_t count,
                   dw_blob* out, dw_setup_result* result, dw_error* error) {
  const int32_t code = use_engine("setup_step", error);
  return code != DW_OK
             ? code
             : loopback::setup_step(setup, in, count, out, result, error);
}

int32_t comm_destroy(dw_comm* comm, int64_t deadline_ns, dw_error* error) {
  const int32_t code = use_engine("comm_destroy", error);
  const int32_t ended = loopback::comm_destroy(comm, deadline_ns, error);
  return code != DW_OK ? code : ended;
}

int32_t submit(dw_comm* comm, const dw_op* op, dw_work* work, dw_error* error) {
  const int32_t code = use_engine("submit", error);
  return code != DW_OK ? code : loopback::submit(comm, op, work, error);
}

constexpr dw_backend_api kTable = [] {
  dw_backend_api api = {};
  api.struct_size = sizeof(dw_backend_api);
  api.abi_major = DW_ABI_MAJOR;
  api.abi_minor = DW_ABI_MINOR;
  api.flags = DW_BACKEND_SUBMIT_BESIDE | DW_BACKEND_SAYS_WAITS;
  api.devices = DW_BIT(DW_DEVICE_CPU);
  api.name = {"below", 5};
  api.version = {"1.0", 3};
  api.open = open;
  api.close = loopback::close;
  api.caps = caps;
  api.setup_begin = setup_begin;
  api.setup_step = setup_step;
  api.setup_cancel = loopback::setup_cancel;
  api.comm_abort = loopback::comm_abort;
  api.comm_destroy = comm_destroy;
  api.query = loopback::query;
  api.submit = submit;
  return api;
}();

}  // namespace

DW_PLUGIN_ENTRY(kTable);
