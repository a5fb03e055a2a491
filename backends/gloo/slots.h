// The numbers by which Gloo brings a transfer and its receiver together.
//
// Gloo checks a message's length in its own thread, where an exception ends the
// process, and delivers one that is too short without a word. So a slot holds
// what both sides have to agree on, sizes above all: those that do not fit
// never meet. Transfers of one slot between two ranks meet in the order in
// which they began.
//
// bits of a message:     63: 1   62..23: tag      22..0: size
// bits of a collective:  63: 0   62: phase        61..24: digest   23..0: seq
#ifndef DISTWRAP_BACKENDS_GLOO_SLOTS_H_
#define DISTWRAP_BACKENDS_GLOO_SLOTS_H_

#include <cstdint>

namespace gloo_backend {

inline uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= UINT64_C(0x9e3779b97f4a7c15);
  x ^= x >> 29;
  x *= UINT64_C(0xbf58476d1ce4e5b9);
  return x ^ x >> 32;
}

// `tag` has DW_TAG_BITS. The size is told itself, or from 4 MiB on by a digest
// that begins with a one.
inline uint64_t message_slot(uint64_t tag, uint64_t bytes) {
  constexpr int kSizeBits = 23;
  constexpr uint64_t kExact = UINT64_C(1) << (kSizeBits - 1);
  const uint64_t size =
      bytes < kExact ? bytes : kExact | (mix(bytes) & (kExact - 1));
  return UINT64_C(1) << 63 | tag << kSizeBits | size;
}

// `digest` is of what all ranks of the call agree on. A collective in which two
// transfers of different meaning go the same way has two phases. Sequence
// numbers of collectives in flight together are close: their lower bits tell
// them apart for certain.
inline uint64_t collective_slot(uint64_t digest, unsigned phase, uint64_t bytes,
                                uint64_t seq) {
  constexpr uint64_t kDigest = ((UINT64_C(1) << 38) - 1) << 24;
  return static_cast<uint64_t>(phase) << 62 | (mix(digest + bytes) & kDigest) |
         (seq & 0xffffff);
}

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_SLOTS_H_
