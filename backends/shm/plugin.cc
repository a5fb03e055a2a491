// The table, and the only symbol that a plugin exports.
#include "backend.h"
#include "sdk/entry.h"

static constexpr dw_backend_api kTable = [] {
  dw_backend_api api = {};
  api.struct_size = sizeof(dw_backend_api);
  api.abi_major = DW_ABI_MAJOR;
  api.abi_minor = DW_ABI_MINOR;
  api.flags = DW_BACKEND_SUBMIT_BESIDE;
  api.devices = DW_BIT(DW_DEVICE_CPU);
  api.name = {"shm", 3};
  api.version = {"1", 1};
  api.open = shm_backend::open;
  api.close = shm_backend::close;
  api.caps = shm_backend::caps;
  api.setup_begin = shm_backend::setup_begin;
  api.setup_step = shm_backend::setup_step;
  api.setup_cancel = shm_backend::setup_cancel;
  api.comm_abort = shm_backend::comm_abort;
  api.comm_destroy = shm_backend::comm_destroy;
  api.query = shm_backend::query;
  api.submit = shm_backend::submit;
  api.submit_group = shm_backend::submit_group;
  return api;
}();

DW_PLUGIN_ENTRY(kTable);
