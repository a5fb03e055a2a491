// Memory for the states of tensors and nodes, and for storages in host memory.
// A program makes and drops many of the same few sizes, so each thread keeps
// freed blocks: 64 of each size up to 1 KiB, and 64 MiB of longer ones. Without
// that, malloc would give the pages of long blocks back to the system and fault
// them in again.
//
// Blocks are aligned to 64 bytes. A block may be given back in another thread
// than the one that took it: it joins the free blocks of that thread.
#ifndef DISTWRAP_SRC_DISPATCH_FREE_LIST_H_
#define DISTWRAP_SRC_DISPATCH_FREE_LIST_H_

#include <cstddef>

namespace distwrap::dispatch {

// nullptr where no memory is left.
void* take_block(size_t bytes) noexcept;
// `bytes` as it was taken.
void give_block(void* block, size_t bytes) noexcept;

}  // namespace distwrap::dispatch

#endif  // DISTWRAP_SRC_DISPATCH_FREE_LIST_H_
