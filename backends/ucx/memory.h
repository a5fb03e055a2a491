// Memory that is registered with UCX, with the key through which other ranks
// reach it. Registered once, until this object is destroyed.
#ifndef DISTWRAP_BACKENDS_UCX_MEMORY_H_
#define DISTWRAP_BACKENDS_UCX_MEMORY_H_

#include "context.h"

#include <cstdint>
#include <memory>
#include <string>

namespace ucx_backend {

class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Allocates zeroed memory with pages behind it; shared with other processes
  // where UCX can do that.
  int32_t allocate(std::shared_ptr<Context> context, uint64_t bytes,
                   dw_error* error);
  // Registers memory of another owner, who keeps it until this object is
  // destroyed.
  int32_t adopt(std::shared_ptr<Context> context, void* data, uint64_t bytes,
                dw_error* error);

  char* data() const { return data_; }
  // The packed key of UCX.
  const std::string& key() const { return key_; }

 private:
  int32_t map(std::shared_ptr<Context> context, const ucp_mem_map_params_t& how,
              dw_error* error);

  std::shared_ptr<Context> context_;
  ucp_mem_h handle_ = nullptr;
  char* data_ = nullptr;
  std::string key_;
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_MEMORY_H_
