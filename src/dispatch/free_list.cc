#include "dispatch/free_list.h"

#include "distwrap/abi/note.h"

#include <bit>
#include <cstdint>
#include <cstdlib>

namespace distwrap::dispatch {
namespace {

constexpr size_t kUnit = 64;
// A sanitizer sees each use of freed memory only if nothing is kept.
constexpr bool kKeeps = DW_SANITIZER == DW_SANITIZER_NONE;

// Small blocks have a list for each multiple of the unit. Longer ones are
// rounded up to a quarter of a power of two, with a list for each quarter.
constexpr size_t kSmall = 1024, kSmallSizes = kSmall / kUnit;
constexpr uint32_t kMostSmall = kKeeps ? 64 : 0;
constexpr size_t kLongest = size_t{32} << 20, kMostLong = size_t{64} << 20;
constexpr size_t kLongSizes = 4 * (std::bit_width(kLongest / kSmall) + 1);

struct FreeBlock {
  FreeBlock* next;
};

// Plain zeros at the start of a thread: no constructor guards the accesses.
struct FreeLists {
  FreeBlock* small[kSmallSizes];
  uint32_t kept[kSmallSizes];
  FreeBlock* longer[kLongSizes];
  size_t long_bytes;
  // Whether this thread's end frees the blocks, and whether it has come.
  bool known, ended;
};
__thread FreeLists lists __attribute__((tls_model("initial-exec")));

void free_all(FreeBlock*& first) {
  while (first != nullptr) {
    FreeBlock* const block = first;
    first = block->next;
    std::free(block);
  }
}

// Frees the blocks at the end of the thread. Other objects of the thread may
// give blocks back even later.
struct AtThreadEnd {
  ~AtThreadEnd() {
    lists.ended = true;
    for (FreeBlock*& first : lists.small) free_all(first);
    for (FreeBlock*& first : lists.longer) free_all(first);
  }
};

// Whether the block is kept: not before the thread is known, nor after its end.
[[gnu::noinline]] bool know_thread() {
  if (lists.ended) return false;
  static thread_local AtThreadEnd end;
  (void)end;
  return lists.known = true;
}

size_t small_number(size_t bytes) { return (bytes - 1) / kUnit; }

// The size of a long block, and its list.
struct LongSize {
  explicit LongSize(size_t wanted) {
    const size_t step = std::bit_floor(wanted) / 4;
    bytes = (wanted + step - 1) / step * step;
    const auto power = static_cast<size_t>(std::bit_width(bytes) - 1);
    number =
        4 * (power - (std::bit_width(kSmall) - 1)) + (bytes >> (power - 2) & 3);
  }
  size_t bytes, number;
};

bool keeps_blocks() { return (lists.known || know_thread()) && !lists.ended; }

void* take_long(size_t bytes) {
  const LongSize size(bytes);
  if (bytes > kLongest || lists.longer[size.number] == nullptr) {
    return std::aligned_alloc(kUnit, (size.bytes + kUnit - 1) / kUnit * kUnit);
  }
  FreeBlock* const block = lists.longer[size.number];
  lists.longer[size.number] = block->next;
  lists.long_bytes -= size.bytes;
  return block;
}

void give_long(void* block, size_t bytes) {
  const LongSize size(bytes);
  if (!kKeeps || bytes > kLongest ||
      lists.long_bytes + size.bytes > kMostLong || !keeps_blocks()) {
    std::free(block);
    return;
  }
  auto* const freed = static_cast<FreeBlock*>(block);
  freed->next = lists.longer[size.number];
  lists.longer[size.number] = freed;
  lists.long_bytes += size.bytes;
}

}  // namespace

void* take_block(size_t bytes) noexcept {
  if (bytes > kSmall) return take_long(bytes);
  const size_t number = small_number(bytes);
  FreeBlock* const block = lists.small[number];
  if (block == nullptr) [[unlikely]] {
    return std::aligned_alloc(kUnit, (number + 1) * kUnit);
  }
  lists.small[number] = block->next;
  --lists.kept[number];
  return block;
}

void give_block(void* block, size_t bytes) noexcept {
  if (bytes > kSmall) return give_long(block, bytes);
  const size_t number = small_number(bytes);
  if (lists.kept[number] >= kMostSmall || !keeps_blocks()) {
    std::free(block);
    return;
  }
  auto* const freed = static_cast<FreeBlock*>(block);
  freed->next = lists.small[number];
  lists.small[number] = freed;
  ++lists.kept[number];
}

}  // namespace distwrap::dispatch
