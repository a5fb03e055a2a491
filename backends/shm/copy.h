// Copies out of memory that another processor has just written, and past the
// caches.
//
// Lines that are modified in a peer's cache come one by one, each as late as a
// hand-over takes; how many are under way decides. The prefetcher of a
// processor follows a few lines ahead in every page that is being read, so
// four pages are read side by side.
#ifndef DISTWRAP_BACKENDS_SHM_COPY_H_
#define DISTWRAP_BACKENDS_SHM_COPY_H_

#include <cstddef>

namespace shm_backend {

// Input to output of a piece, unless they are one.
inline void copy(void* to, const void* from, size_t bytes) {
  if (bytes != 0 && to != from) __builtin_memcpy(to, from, bytes);
}

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

// Writes to memory and not into the caches: for what is so large that its
// beginning has left them before anybody reads it, where a line would be read
// from memory only to be overwritten.
void copy_past_caches(void* to, const void* from, size_t bytes);

// What a peer has just written, to a caller's buffer.
void fetch(void* to, const void* from, size_t bytes);
void fetch_past_caches(void* to, const void* from, size_t bytes);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_COPY_H_
