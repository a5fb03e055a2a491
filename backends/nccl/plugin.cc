// The table, and the only symbol that a plugin exports.
#include "backend.h"
#include "sdk/entry.h"

#include <iterator>

static constexpr dw_backend_api kTable = [] {
  dw_backend_api api = {};
  api.struct_size = sizeof(dw_backend_api);
  api.abi_major = DW_ABI_MAJOR;
  api.abi_minor = DW_ABI_MINOR;
  api.flags = DW_BACKEND_STREAMS | DW_BACKEND_HAS_THREADS |
              DW_BACKEND_SAYS_BEGUN | DW_BACKEND_OWN_FLOATS;
  api.devices = DW_BIT(DW_DEVICE_CUDA);
  api.name = {"nccl", 4};
  api.version = {"2.19 or newer", 13};
  api.hints = nccl_backend::kHints;
  api.n_hints = std::size(nccl_backend::kHints);
  api.open = nccl_backend::open;
  api.close = nccl_backend::close;
  api.caps = nccl_backend::caps;
  api.setup_begin = nccl_backend::setup_begin;
  api.setup_step = nccl_backend::setup_step;
  api.setup_cancel = nccl_backend::setup_cancel;
  api.comm_abort = nccl_backend::comm_abort;
  api.comm_destroy = nccl_backend::comm_destroy;
  api.query = nccl_backend::query;
  api.submit = nccl_backend::submit;
  api.submit_group = nccl_backend::submit_group;
  api.progress = nccl_backend::progress;
  api.mem_alloc = nccl_backend::mem_alloc;
  api.mem_release = nccl_backend::mem_release;
  api.window_create = nccl_backend::window_create;
  api.window_map = nccl_backend::window_map;
  api.window_destroy = nccl_backend::window_destroy;
  api.work_wait_stream = nccl_backend::work_wait_stream;
  api.stream_captured = nccl_backend::stream_captured;
  return api;
}();

DW_PLUGIN_ENTRY(kTable);
