#include "bench/cold.h"

#include "bench/machine.h"

#include <algorithm>

namespace distwrap::bench {
namespace {

constexpr size_t kLine = 64;
constexpr int kMostSets = 16;

}  // namespace

Evictor::Evictor(int64_t cache_bytes)
    : memory_(static_cast<size_t>(2 * cache_bytes)) {}

void Evictor::evict() {
  // Written, so that no other core keeps a copy of the lines.
  for (size_t at = 0; at < memory_.size(); at += kLine) {
    memory_[at] ^= std::byte{1};
  }
  asm volatile("" : : "r"(memory_.data()) : "memory");
}

int64_t largest_cache_bytes() {
  int64_t most = 0;
  for (const Cache& cache : caches()) most = std::max(most, cache.bytes);
  return most > 0 ? most : int64_t{32} << 20;
}

int rotation(int64_t bytes, int64_t cache_bytes) {
  if (bytes <= 0) return 1;
  return static_cast<int>(
      std::clamp<int64_t>(cache_bytes / bytes + 1, 2, kMostSets));
}

}  // namespace distwrap::bench
