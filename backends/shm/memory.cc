// mem_alloc: memory comes from the heap of the oldest living group segment,
// which serves the world and all groups that are split from it. For other
// groups, and for operations that do not look for it, it is ordinary memory.
#include "backend.h"
#include "sdk/guard.h"

#include <memory>

namespace shm_backend {
namespace {

struct Memory {
  std::shared_ptr<Arena> arena;
  size_t place, bytes;
};

Memory* of(dw_mem* memory) { return reinterpret_cast<Memory*>(memory); }

}  // namespace

void Backend::know(const std::shared_ptr<Arena>& arena) {
  std::lock_guard<std::mutex> lock(mutex);
  std::erase_if(arenas, [](const auto& one) { return one.expired(); });
  arenas.push_back(arena);
}

// A process without peers makes a heap that no other process maps.
int32_t Backend::find_arena(std::shared_ptr<Arena>* found, dw_error* error) {
  std::lock_guard<std::mutex> lock(mutex);
  for (const std::weak_ptr<Arena>& one : arenas)
    if ((*found = one.lock()) != nullptr) return DW_OK;
  auto alone = std::make_shared<Arena>();
  Header header = {};
  header.magic = kSegmentMagic;
  header.size = 1;
  header.stage_bytes = stage_bytes;
  if (int32_t code = alone->create(header, error)) return code;
  alone->settle(0);
  arenas.push_back(alone);
  *found = std::move(alone);
  return DW_OK;
}

int32_t mem_alloc(dw_backend* backend, uint64_t bytes, dw_mem** memory,
                  void** address, dw_error* error) {
  return dw_sdk::guarded("shm: allocating memory", error, [&]() -> int32_t {
    auto made = std::make_unique<Memory>();
    if (int32_t code = of(backend)->find_arena(&made->arena, error))
      return code;
    made->bytes = bytes;
    char* data = nullptr;
    if (int32_t code =
            made->arena->heap().take(bytes, &made->place, &data, error))
      return code;
    *address = data;
    *memory = reinterpret_cast<dw_mem*>(made.release());
    return DW_OK;
  });
}

int32_t mem_release(dw_backend* /*backend*/, dw_mem* given, dw_error* error) {
  Memory* const memory = of(given);
  if (int32_t code =
          memory->arena->heap().give_back(memory->place, memory->bytes, error))
    return code;
  delete memory;
  return DW_OK;
}

}  // namespace shm_backend
