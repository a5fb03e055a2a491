// Buffers that begin at a page, as those of all contestants do: on some
// processors the place of a buffer in its page makes a copy 20 times slower.
#ifndef DISTWRAP_TOOLS_CLI_BENCH_PAGE_ALIGNED_H_
#define DISTWRAP_TOOLS_CLI_BENCH_PAGE_ALIGNED_H_

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace distwrap::bench {

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using PageAligned = std::unique_ptr<std::byte, FreeMemory>;

// Memory of at least that many bytes; NULL when there is none.
inline PageAligned page_aligned(size_t bytes) {
  constexpr size_t kPage = 4096;
  return PageAligned(static_cast<std::byte*>(
      std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage)));
}

}  // namespace distwrap::bench

#endif  // DISTWRAP_TOOLS_CLI_BENCH_PAGE_ALIGNED_H_
