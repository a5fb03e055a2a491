// Memory of mem_alloc, found by address. NCCL moves memory without copies that
// is registered with the communicator, so a block is registered with each
// communicator when an operation first uses it there.
//
// Threads: any. Ownership: of the instance.
#ifndef DISTWRAP_BACKENDS_NCCL_REGISTERED_H_
#define DISTWRAP_BACKENDS_NCCL_REGISTERED_H_

#include "distwrap/abi/types.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace nccl_backend {

struct NcclPart;

struct Block {
  char* at = nullptr;
  size_t bytes = 0;
  int uses = 0;  // operations in flight
  // The communicators with which it was registered; some may have ended.
  std::vector<std::shared_ptr<NcclPart>> parts;
  // The communicators of the windows on it; some may have ended.
  std::vector<std::shared_ptr<NcclPart>> windows;
};

class Blocks {
 public:
  void add(void* at, size_t bytes);
  // The block with this address, which stays until `leave`; null: there is
  // none.
  Block* use(const void* at);
  void leave(Block* block);
  void registered(Block* block, std::shared_ptr<NcclPart> part);
  // Whether all of the memory lies in a block. Then the window of `part` is on
  // it, which lasts until the part has ended.
  bool add_window(const char* at, size_t bytes, std::shared_ptr<NcclPart> part);
  // Whether a window is on the block with this address. Waits for windows that
  // are about to end.
  bool has_window(const void* at);
  // Takes a block out that no operation uses. DW_OK, or the refusal.
  int32_t take(void* at, Block* taken, dw_error* error);
  void put_back(Block block);

 private:
  // The block with this address. Precondition: the mutex is held.
  Block* find(const char* at);

  std::mutex mutex_;
  std::map<const char*, Block> blocks_;  // by address
};

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_REGISTERED_H_
