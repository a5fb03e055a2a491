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

  // Registers memory, which has to stay until this object is destroyed.
  int32_t map(std::shared_ptr<Context> context, void* data, uint64_t bytes,
              dw_error* error);

  // The packed key of UCX.
  const std::string& key() const { return key_; }

 private:
  std::shared_ptr<Context> context_;
  ucp_mem_h handle_ = nullptr;
  std::string key_;
};

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_MEMORY_H_
