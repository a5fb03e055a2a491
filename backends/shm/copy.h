// Copies out of memory that another processor has just written, and past the
// caches.
//
// Lines that are modified in a peer's cache come one by one, each as late as a
// hand-over takes; how many are under way decides. The prefetcher of a
// processor follows a few lines ahead in every page that is being read, so
// four pages are read side by side.
#ifndef DISTWRAP_BACKENDS_SHM_COPY_H_
#define DISTWRAP_BACKENDS_SHM_COPY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shm_backend {

// Whether the C library's memcpy may crawl there. From some KiB on it is one
// instruction on some processors ("rep movsb"), which takes 20 times as long on
// an AMD Zen 3 when what is written lies 1 to 31 bytes further in its page than
// what is read: malloc gives large blocks at 16 bytes behind a page's begin.
inline bool trails(const void* to, const void* from) {
  constexpr uintptr_t kPageBytes = 4 << 10, kSlow = 32;
  const uintptr_t distance =
      reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  return distance % kPageBytes - 1 < kSlow - 1;
}

// What is fast there.
void copy_trailing(void* to, const void* from, size_t bytes);

// By the C library. Where the compiler knows a length, or the most that it can
// be, it would use an instruction ("rep movsq") which takes 20 to 45 ns to
// begin.
inline void copy_by_library(void* to, const void* from, size_t bytes) {
  asm("" : "+r"(bytes));
  __builtin_memcpy(to, from, bytes);
}

// Input to output of a piece, unless they are one.
inline void copy(void* to, const void* from, size_t bytes) {
  constexpr size_t kShort = 1 << 10;
  if (bytes == 0 || to == from) return;
  if (bytes >= kShort && trails(to, from)) [[unlikely]]
    return copy_trailing(to, from, bytes);
  copy_by_library(to, from, bytes);
}

// Never by the one instruction that memcpy has for long ones ("rep movsb").
// That takes 45 ns to begin on an AMD Zen 5, and does not fetch what it writes:
// which is better depends on who has the lines.
void copy_by_vectors(void* to, const void* from, size_t bytes);

// Writes to memory and not into the caches: for what is so large that its
// beginning has left them before anybody reads it, where a line would be read
// from memory only to be overwritten.
void copy_past_caches(void* to, const void* from, size_t bytes);

// Whether so many bytes of buffers at each of these ranks, which may share the
// last cache, leave it before anybody comes back to them, and take what else is
// in it along.
inline bool outgrow_caches(size_t bytes, int ranks) {
  constexpr size_t kTooLarge = 32 << 20;
  constexpr int kMostSharing = 8;
  return static_cast<size_t>(std::min(ranks, kMostSharing)) * bytes >=
         kTooLarge;
}

// Into memory that peers read next. Past the caches where none is shared with
// them.
inline void copy_for_peers(void* to, const void* from, size_t bytes,
                           bool past) {
  constexpr size_t kShort = 16 << 10;
  if (past) return copy_past_caches(to, from, bytes);
  bytes <= kShort ? copy(to, from, bytes) : copy_by_vectors(to, from, bytes);
}

// A line that will soon be written and that a peer has read: to take it back
// takes as long as a hand-over, in which other things can be done.
inline void take_ahead(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// What has just been written and is read next by a peer that waits for it: out
// of this processor's own caches it comes sooner.
inline constexpr size_t kMostHandedDown = 8 << 10;  // is no gain above
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

// What a peer has written, `in_memory` or only in its own caches, to a caller's
// buffer: by this processor's caches, or `past` them. Memory is read fastest in
// order.
void fetch(void* to, const void* from, size_t bytes, bool in_memory, bool past);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_COPY_H_
