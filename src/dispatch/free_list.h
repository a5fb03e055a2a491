// Memory for the states of tensors, storages and nodes, of which a program
// makes and drops many of the same few sizes: each thread keeps freed blocks.
//
// Blocks are aligned to 64 bytes. A block may be given back in another thread
// than the one that took it: it joins the free blocks of that thread.
#ifndef DISTWRAP_SRC_DISPATCH_FREE_LIST_H_
#define DISTWRAP_SRC_DISPATCH_FREE_LIST_H_

#include <cstddef>

namespace distwrap::dispatch {

// Longer blocks come from malloc each time.
inline constexpr size_t kLargestKeptBlock = 1024;

// nullptr where no memory is left.
void* take_block(size_t bytes) noexcept;
// `bytes` as it was taken.
void give_block(void* block, size_t bytes) noexcept;

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_SRC_DISPATCH_FREE_LIST_H_
