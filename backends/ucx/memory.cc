#include "memory.h"

#include <cstring>
#include <utility>

namespace ucx_backend {

Memory::~Memory() {
  if (handle_ != nullptr)
    context_->library().ucp_mem_unmap(context_->get(), handle_);
}

int32_t Memory::map(std::shared_ptr<Context> context,
                    const ucp_mem_map_params_t& how, dw_error* error) {
  context_ = std::move(context);
  const Library& ucp = context_->library();
  if (const ucs_status_t status =
          ucp.ucp_mem_map(context_->get(), &how, &handle_);
      status != UCS_OK) {
    handle_ = nullptr;
    return fail_ucx(ucp, "ucp_mem_map", status, error);
  }
  void* key = nullptr;
  size_t bytes = 0;
  if (const ucs_status_t status =
          ucp.ucp_rkey_pack(context_->get(), handle_, &key, &bytes);
      status != UCS_OK)
    return fail_ucx(ucp, "ucp_rkey_pack", status, error);
  key_.assign(static_cast<const char*>(key), bytes);
  ucp.ucp_rkey_buffer_release(key);
  return DW_OK;
}

int32_t Memory::allocate(std::shared_ptr<Context> context, uint64_t bytes,
                         dw_error* error) {
  ucp_mem_map_params_t how = {};
  how.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  how.length = bytes;
  how.flags = UCP_MEM_MAP_ALLOCATE;
  if (int32_t code = map(std::move(context), how, error)) return code;
  ucp_mem_attr_t found = {};
  found.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  const Library& ucp = context_->library();
  if (const ucs_status_t status = ucp.ucp_mem_query(handle_, &found);
      status != UCS_OK)
    return fail_ucx(ucp, "ucp_mem_query", status, error);
  data_ = static_cast<char*>(found.address);
  std::memset(data_, 0, bytes);
  return DW_OK;
}

int32_t Memory::adopt(std::shared_ptr<Context> context, void* data,
                      uint64_t bytes, dw_error* error) {
  ucp_mem_map_params_t how = {};
  how.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  how.address = data;
  how.length = bytes;
  data_ = static_cast<char*>(data);
  return map(std::move(context), how, error);
}

}  // namespace ucx_backend
