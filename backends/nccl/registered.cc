#include "registered.h"

#include "backend.h"
#include "sdk/fail.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace nccl_backend {
namespace {

// How long the end of a window that has begun is waited for.
constexpr std::chrono::seconds kEndPatience{2};

}  // namespace

void Blocks::add(void* at, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  blocks_[static_cast<char*>(at)] = {static_cast<char*>(at), bytes, 0, {}, {}};
}

Block* Blocks::find(const char* at) {
  auto next = blocks_.upper_bound(at);
  if (next == blocks_.begin()) return nullptr;
  Block& block = (--next)->second;
  return at < block.at + block.bytes ? &block : nullptr;
}

Block* Blocks::use(const void* at) {
  std::lock_guard<std::mutex> lock(mutex_);
  Block* const block = find(static_cast<const char*>(at));
  if (block != nullptr) ++block->uses;
  return block;
}

bool Blocks::add_window(const char* at, size_t bytes,
                        std::shared_ptr<NcclPart> part) {
  std::lock_guard<std::mutex> lock(mutex_);
  Block* const block = find(at);
  if (block == nullptr || bytes > block->bytes ||
      at > block->at + (block->bytes - bytes))
    return false;
  block->windows.push_back(std::move(part));
  return true;
}

bool Blocks::has_window(const void* at) {
  std::vector<std::shared_ptr<NcclPart>> parts;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (const Block* const block = find(static_cast<const char*>(at)))
      parts = block->windows;
  }
  // Not under the mutex, which threads take that are inside a part.
  return std::any_of(parts.begin(), parts.end(), [](const auto& part) {
    if (const std::shared_ptr<Ending> ending = part->ending())
      ending->wait(kEndPatience);
    if (!part->inside.try_lock_for(kEndPatience)) return true;
    const std::lock_guard<CallLock> inside(part->inside, std::adopt_lock);
    return !part->has_ended();
  });
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
    return dw_invalid(error,
                      "nccl: an operation uses the memory; wait for its end");
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
