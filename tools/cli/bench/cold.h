// Empties the caches, so that an operation finds its data in memory.
//
// Threads: used by one. Ownership: owns its memory.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_COLD_H_
#define DISTWRAP_TOOLS_CLI_BENCH_COLD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace distwrap::bench {

class Evictor {
 public:
  // Walks through twice `cache_bytes`, the size of the largest cache.
  explicit Evictor(int64_t cache_bytes);
  virtual ~Evictor() = default;
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  virtual void evict();
  int64_t bytes() const { return static_cast<int64_t>(memory_.size()); }

 private:
  std::vector<std::byte> memory_;
};

// The size of this machine's largest cache; 32 MiB when it is not known.
int64_t largest_cache_bytes();

// The number of buffer sets of `bytes` that take turns: so many that a set has
// left a cache of `cache_bytes` before its next turn, at most 16.
int rotation(int64_t bytes, int64_t cache_bytes);

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_COLD_H_
