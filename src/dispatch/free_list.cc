#include "dispatch/free_list.h"

#include "distwrap/abi/note.h"

#include <cstdint>
#include <cstdlib>

namespace distwrap::dispatch {
namespace {

constexpr size_t kUnit = 64;
constexpr size_t kSizes = kLargestKeptBlock / kUnit;
// A sanitizer sees each use of freed memory only if nothing is kept.
constexpr uint32_t kMostKept = DW_SANITIZER == DW_SANITIZER_NONE ? 64 : 0;

struct FreeBlock {
  FreeBlock* next;
};

// Plain zeros at the start of a thread: no constructor guards the accesses.
struct FreeLists {
  FreeBlock* first[kSizes];
  uint32_t kept[kSizes];
  // Whether this thread's end frees the blocks, and whether it has come.
  bool known, ended;
};
__thread FreeLists lists __attribute__((tls_model("initial-exec")));

// Frees the blocks at the end of the thread. Other objects of the thread may
// give blocks back even later.
struct AtThreadEnd {
  ~AtThreadEnd() {
    lists.ended = true;
    for (FreeBlock*& first : lists.first) {
      while (first != nullptr) {
        FreeBlock* const block = first;
        first = block->next;
        std::free(block);
      }
    }
  }
};

// Whether the block is kept: not before the thread is known, nor after its end.
[[gnu::noinline]] bool know_thread() {
  if (lists.ended) return false;
  static thread_local AtThreadEnd end;
  (void)end;
  return lists.known = true;
}

size_t size_number(size_t bytes) { return (bytes - 1) / kUnit; }

}  // namespace

void* take_block(size_t bytes) noexcept {
  const size_t number = size_number(bytes);
  if (number >= kSizes) {
    return std::aligned_alloc(kUnit, (number + 1) * kUnit);
  }
  FreeBlock* const block = lists.first[number];
  if (block == nullptr) [[unlikely]] {
    return std::aligned_alloc(kUnit, (number + 1) * kUnit);
  }
  lists.first[number] = block->next;
  --lists.kept[number];
  return block;
}

void give_block(void* block, size_t bytes) noexcept {
  const size_t number = size_number(bytes);
  if (number >= kSizes || lists.kept[number] >= kMostKept ||
      (!lists.known && !know_thread()) || lists.ended) {
    std::free(block);
    return;
  }
  auto* const freed = static_cast<FreeBlock*>(block);
  freed->next = lists.first[number];
  lists.first[number] = freed;
  ++lists.kept[number];
}

}  // namespace distwrap::dispatch
