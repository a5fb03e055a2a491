#include "copy.h"

#include "layout.h"

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

namespace shm_backend {
namespace {

#if defined(__x86_64__)

// Whether the processor has "cldemote". Elsewhere the instruction does nothing
// and still costs time.
bool knows_demote() {
  constexpr unsigned kFeatures = 7, kDemote = 1u << 25;
  unsigned a, b, c, d;
  return __get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) != 0 &&
         (c & kDemote) != 0;
}
const bool kKnowsDemote = knows_demote();

void write_past_caches(char* to, const char* from, size_t bytes) {
  constexpr size_t kVector = sizeof(__m128i);
  // Only whole lines: a partial line would be merged with memory.
  const size_t first =
      std::min(bytes, -reinterpret_cast<uintptr_t>(to) % kLine);
  const size_t end = first + (bytes - first) / kLine * kLine;
  copy(to, from, first);
  for (size_t at = first; at < end; at += kLine) {
    __m128i parts[kLine / kVector];
    for (size_t i = 0; i < kLine / kVector; ++i)
      parts[i] = _mm_loadu_si128(
          reinterpret_cast<const __m128i*>(from + at + i * kVector));
    for (size_t i = 0; i < kLine / kVector; ++i)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + i * kVector),
                       parts[i]);
  }
  copy(to + end, from + end, bytes - end);
}

// Non-temporal stores are not ordered with the store that says that an
// operation has ended.
void order_writes() { _mm_sfence(); }

#else

void write_past_caches(char* to, const char* from, size_t bytes) {
  copy(to, from, bytes);
}

void order_writes() {}

#endif

}  // namespace

void copy_by_vectors(void* to, const void* from, size_t bytes) {
  // so few bytes are never copied by "rep movsb"
  constexpr size_t kBlock = 2 << 10;
  if (to == from) return;
  for (size_t at = 0; at < bytes; at += kBlock)
    copy_by_library(static_cast<char*>(to) + at,
                    static_cast<const char*>(from) + at,
                    std::min(kBlock, bytes - at));
}

void hand_down(const void* at, size_t bytes) {
#if defined(__x86_64__)
  if (!kKnowsDemote) return;
  for (size_t i = 0; i < bytes; i += kLine)
    asm volatile("cldemote %0" ::"m"(static_cast<const char*>(at)[i]));
#endif
}

void copy_past_caches(void* to, const void* from, size_t bytes) {
  write_past_caches(static_cast<char*>(to), static_cast<const char*>(from),
                    bytes);
  order_writes();
}

void fetch(void* to, const void* from, size_t bytes, bool in_memory,
           bool past) {
  if (in_memory)
    return past ? copy_past_caches(to, from, bytes) : copy(to, from, bytes);
  // Up to this size "rep movsb" never makes up for its slow start.
  constexpr size_t kFew = 4 << 10;
  if (!past && bytes <= kFew) return copy_by_vectors(to, from, bytes);
  side_by_side(bytes, [&](size_t at, size_t part) {
    char* const out = static_cast<char*>(to) + at;
    const char* const in = static_cast<const char*>(from) + at;
    past ? write_past_caches(out, in, part) : copy(out, in, part);
  });
  if (past) order_writes();
}

}  // namespace shm_backend
