// The table, and the only symbol that a plugin exports.
#include "backend.h"
#include "sdk/entry.h"
#include "window.h"

static constexpr dw_backend_api kTable = [] {
  dw_backend_api api = {};
  api.struct_size = sizeof(dw_backend_api);
  api.abi_major = DW_ABI_MAJOR;
  api.abi_minor = DW_ABI_MINOR;
  api.flags = DW_BACKEND_SUBMIT_BESIDE | DW_BACKEND_SAYS_UNDER_WAY |
              DW_BACKEND_HAS_THREADS;
  api.devices = DW_BIT(DW_DEVICE_CPU);
  api.name = {"ucx", 3};
  api.version = {"1.13 or newer", 13};
  api.hints = ucx_backend::kHints;
  api.n_hints = sizeof ucx_backend::kHints / sizeof ucx_backend::kHints[0];
  api.open = ucx_backend::open;
  api.close = ucx_backend::close;
  api.caps = ucx_backend::caps;
  api.setup_begin = ucx_backend::setup_begin;
  api.setup_step = ucx_backend::setup_step;
  api.setup_cancel = ucx_backend::setup_cancel;
  api.comm_abort = ucx_backend::comm_abort;
  api.comm_destroy = ucx_backend::comm_destroy;
  api.query = ucx_backend::query;
  api.submit = ucx_backend::submit;
  api.submit_group = ucx_backend::submit_group;
  api.progress = ucx_backend::progress;
  api.window_create = ucx_backend::window_create;
  api.window_map = ucx_backend::window_map;
  api.window_destroy = ucx_backend::window_destroy;
  return api;
}();

DW_PLUGIN_ENTRY(kTable);
