#include "memory.h"

#include <utility>

namespace ucx_backend {

Memory::~Memory() {
  if (handle_ != nullptr)
    context_->library().ucp_mem_unmap(context_->get(), handle_);
}

int32_t Memory::map(std::shared_ptr<Context> context, void* data,
                    uint64_t bytes, dw_error* error) {
  context_ = std::move(context);
  ucp_mem_map_params_t how = {};
  how.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  how.address = data;
  how.length = bytes;
  const Library& ucp = context_->library();
  if (const ucs_status_t status =
          ucp.ucp_mem_map(context_->get(), &how, &handle_);
      status != UCS_OK) {
    handle_ = nullptr;
    return fail_ucx(ucp, "ucp_mem_map", status, error);
  }
  void* key = nullptr;
  size_t key_bytes = 0;
  if (const ucs_status_t status =
          ucp.ucp_rkey_pack(context_->get(), handle_, &key, &key_bytes);
      status != UCS_OK)
    return fail_ucx(ucp, "ucp_rkey_pack", status, error);
  key_.assign(static_cast<const char*>(key), key_bytes);
  ucp.ucp_rkey_buffer_release(key);
  return DW_OK;
}

}  // namespace ucx_backend
