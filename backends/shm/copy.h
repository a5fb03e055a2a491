// Copies from memory that another processor has just written, and copies with
// non-temporal stores.
//
// A line that is modified in another processor's cache arrives only after a
// hand-over between the caches, so the number of lines requested at once
// decides the speed. The prefetcher follows a few lines ahead in every page
// that is being read, so four pages are read side by side.
#ifndef DISTWRAP_BACKENDS_SHM_COPY_H_
#define DISTWRAP_BACKENDS_SHM_COPY_H_

#include "hostmem/copy.h"

#include <algorithm>
#include <cstddef>

namespace shm_backend {

using dw_hostmem::copy;
using dw_hostmem::copy_by_library;

// Copies without "rep movsb", the instruction that memcpy uses for long copies.
// It takes 45 ns to begin on an AMD Zen 5 and does not fetch the lines that it
// writes: which is better depends on who has the lines.
void copy_by_vectors(void* to, const void* from, size_t bytes);

// Copies with non-temporal stores, for data so large that their beginning
// leaves the caches before anybody reads it. An ordinary store would read each
// line from memory only to overwrite it.
void copy_past_caches(void* to, const void* from, size_t bytes);

// Whether buffers of `bytes` at each of `ranks` ranks, which may share the last
// cache, are evicted from it before they are used again, and evict other data.
inline bool outgrow_caches(size_t bytes, int ranks) {
  constexpr size_t kTooLarge = 32 << 20;
  constexpr int kMostSharing = 8;
  return static_cast<size_t>(std::min(ranks, kMostSharing)) * bytes >=
         kTooLarge;
}

// Copies into memory that other ranks read next. `past`: with non-temporal
// stores, for ranks that share no cache with this one.
inline void copy_for_peers(void* to, const void* from, size_t bytes,
                           bool past) {
  constexpr size_t kShort = 16 << 10;
  if (past) return copy_past_caches(to, from, bytes);
  bytes <= kShort ? copy(to, from, bytes) : copy_by_vectors(to, from, bytes);
}

// Fetches for writing a line that another rank has read. Taking it back takes
// as long as a hand-over, during which this rank can do other work.
inline void take_ahead(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// Moves data that were just written, and that a waiting rank reads next, out of
// this processor's own caches, where the other rank gets them sooner.
inline constexpr size_t kMostHandedDown = 8 << 10;  // brings nothing above
void hand_down(const void* at, size_t bytes);

// Calls visit(offset, bytes) for all of `bytes`, once each and in the order in
// which they are read fastest. Offsets are multiples of 1 KiB.
inline constexpr size_t kPagesBytes = 16 << 10;
template <class Visit>
void side_by_side(size_t bytes, const Visit& visit) {
  constexpr size_t kPageBytes = 4 << 10, kStep = 1 << 10;
  size_t at = 0;
  for (; bytes - at >= kPagesBytes; at += kPagesBytes)
    for (size_t step = 0; step < kPageBytes; step += kStep)
      for (size_t page = 0; page < kPagesBytes; page += kPageBytes)
        visit(at + page + step, kStep);
  if (at < bytes) visit(at, bytes - at);
}

// Copies data that another rank wrote to a caller's buffer. `in_memory`: the
// data are not in the writer's caches, so they are read in order, which is
// fastest. `past`: with non-temporal stores.
void fetch(void* to, const void* from, size_t bytes, bool in_memory, bool past);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_COPY_H_
