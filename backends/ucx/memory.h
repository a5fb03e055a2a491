// Memory that UCX knows, and what lets other ranks reach it. Registered once,
// for as long as this lives.
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

  // New, all zero and really there; shared with others where UCX can.
  int32_t allocate(std::shared_ptr<Context> context, uint64_t bytes,
                   dw_error* error);
  // Somebody else's, who keeps it until this is gone.
  int32_t adopt(std::shared_ptr<Context> context, void* data, uint64_t bytes,
                dw_error* error);

  char* data() const { return data_; }
  // In UCX's words.
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
