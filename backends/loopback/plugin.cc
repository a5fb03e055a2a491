// The table, and the only symbol that a plugin exports.
#include "loopback.h"
#include "sdk/entry.h"

static constexpr dw_backend_api kTable = [] {
  dw_backend_api api = {};
  api.struct_size = sizeof(dw_backend_api);
  api.abi_major = DW_ABI_MAJOR;
  api.abi_minor = DW_ABI_MINOR;
  // A single rank waits for no other.
  api.flags = DW_BACKEND_SUBMIT_BESIDE | DW_BACKEND_SAYS_WAITS;
  api.devices = DW_BIT(DW_DEVICE_CPU);
  api.name = {"loopback", 8};
  api.version = {"1.0", 3};
  api.open = loopback::open;
  api.close = loopback::close;
  api.caps = loopback::caps;
  api.setup_begin = loopback::setup_begin;
  api.setup_step = loopback::setup_step;
  api.setup_cancel = loopback::setup_cancel;
  api.comm_abort = loopback::comm_abort;
  api.comm_destroy = loopback::comm_destroy;
  api.query = loopback::query;
  api.submit = loopback::submit;
  return api;
}();

DW_PLUGIN_ENTRY(kTable);
