#include "registered.h"

#include "backend.h"
#include "sdk/fail.h"

#include <algorithm>
#include <utility>

namespace nccl_backend {

void Blocks::add(void* at, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  blocks_[static_cast<char*>(at)] = {static_cast<char*>(at), bytes, 0, {}};
}

Block* Blocks::use(const void* at) {
  const char* const address = static_cast<const char*>(at);
  std::lock_guard<std::mutex> lock(mutex_);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  Block& block = (--next)->second;
  if (address >= block.at + block.bytes) return nullptr;
  ++block.uses;
  return &block;
}

void Blocks::leave(Block* block) {
  std::lock_guard<std::mutex> lock(mutex_);
  --block->uses;
}

void Blocks::registered(Block* block, std::shared_ptr<NcclPart> part) {
  std::lock_guard<std::mutex> lock(mutex_);
  block->parts.push_back(std::move(part));
}

int32_t Blocks::take(void* at, Block* taken, dw_error* error) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(static_cast<char*>(at));
  if (found == blocks_.end())
    return dw_invalid(error, "nccl: this is no memory of the backend");
  if (found->second.uses != 0)
    return dw_invalid(error, "nccl: an operation uses the memory");
  *taken = std::move(found->second);
  blocks_.erase(found);
  return DW_OK;
}

void Blocks::put_back(Block block) {
  std::lock_guard<std::mutex> lock(mutex_);
  char* const at = block.at;
  blocks_[at] = std::move(block);
}

}  // namespace nccl_backend
