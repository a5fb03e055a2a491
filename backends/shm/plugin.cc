// The table, and the only symbol that a plugin exports.
#include "backend.h"
#include "moving.h"
#include "sdk/entry.h"
#include "window.h"

static constexpr dw_backend_api kTable = [] {
  dw_backend_api api = {};
  api.struct_size = sizeof(dw_backend_api);
  api.abi_major = DW_ABI_MAJOR;
  api.abi_minor = DW_ABI_MINOR;
  api.flags = DW_BACKEND_SUBMIT_BESIDE | DW_BACKEND_SAYS_WAITS |
              DW_BACKEND_HAS_THREADS | DW_BACKEND_SAYS_UNDER_WAY;
  api.devices = DW_BIT(DW_DEVICE_CPU);
  api.name = {"shm", 3};
  api.version = {"1", 1};
  api.hints = shm_backend::kHints;
  api.n_hints = sizeof shm_backend::kHints / sizeof shm_backend::kHints[0];
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
  api.progress = shm_backend::progress;
  api.run_queued = shm_backend::run_queued;
  api.plan_create = shm_backend::plan_create;
  api.plan_run = shm_backend::plan_run;
  api.plan_destroy = shm_backend::plan_destroy;
  api.mem_alloc = shm_backend::mem_alloc;
  api.mem_release = shm_backend::mem_release;
  api.window_create = shm_backend::window_create;
  api.window_map = shm_backend::window_map;
  api.window_destroy = shm_backend::window_destroy;
  return api;
}();

DW_PLUGIN_ENTRY(kTable);
