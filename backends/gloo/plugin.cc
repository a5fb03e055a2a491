// The table, and the only symbol that a plugin exports.
#include "backend.h"
#include "sdk/entry.h"

static constexpr dw_backend_api kTable = [] {
  dw_backend_api api = {};
  api.struct_size = sizeof(dw_backend_api);
  api.abi_major = DW_ABI_MAJOR;
  api.abi_minor = DW_ABI_MINOR;
  api.flags = DW_BACKEND_HOST_WATCHES | DW_BACKEND_SUBMIT_BESIDE;
  api.devices = DW_BIT(DW_DEVICE_CPU);
  api.name = {"gloo", 4};
  api.version = {"0.5.0", 5};
  api.hints = gloo_backend::kHints;
  api.n_hints = sizeof gloo_backend::kHints / sizeof gloo_backend::kHints[0];
  api.open = gloo_backend::open;
  api.close = gloo_backend::close;
  api.caps = gloo_backend::caps;
  api.setup_begin = gloo_backend::setup_begin;
  api.setup_step = gloo_backend::setup_step;
  api.setup_cancel = gloo_backend::setup_cancel;
  api.comm_abort = gloo_backend::comm_abort;
  api.comm_destroy = gloo_backend::comm_destroy;
  api.query = gloo_backend::query;
  api.submit = gloo_backend::submit;
  api.submit_group = gloo_backend::submit_group;
  return api;
}();

DW_PLUGIN_ENTRY(kTable);
