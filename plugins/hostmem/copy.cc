#include "hostmem/copy.h"

namespace dw_hostmem {

// Copies backwards: a load that follows a store to an equal offset in another
// page waits for that store.
void copy_trailing(void* to, const void* from, size_t bytes) {
  constexpr size_t kBlock = 256;
  char* const out = static_cast<char*>(to);
  const char* const in = static_cast<const char*>(from);
  size_t at = bytes;
  for (; at >= kBlock; at -= kBlock)
    __builtin_memcpy(out + at - kBlock, in + at - kBlock, kBlock);
  copy_by_library(out, in, at);
}

}  // namespace dw_hostmem
