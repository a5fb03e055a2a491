// The slots: numbers by which Gloo matches a transfer with its receiver.
//
// Gloo checks a transfer's length in its own thread, where an exception ends
// the process, and delivers a too short transfer without an error. So a slot
// holds everything on which both sides have to agree, sizes above all:
// transfers that do not fit never meet. Heads of messages meet whatever their
// type and size; their receiver has room for any. Transfers of one slot between
// two ranks meet in the order in which they began.
//
// bits of a head:        63: 1   62: 0       39..0: tag
// bits of a payload:     63: 1   62: 1       61..0: digest
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

// `tag` has DW_TAG_BITS.
inline uint64_t head_slot(uint64_t tag) { return UINT64_C(1) << 63 | tag; }

inline uint64_t payload_slot(uint64_t tag, uint64_t type, uint64_t bytes) {
  return UINT64_C(3) << 62 | mix(mix(mix(tag) + type) + bytes);
}

// `digest` covers everything on which all ranks of the call agree. A collective
// has two phases when two transfers of different meaning go in the same
// direction. The sequence numbers of collectives in flight are close to each
// other, so their lower bits always differ.
inline uint64_t collective_slot(uint64_t digest, unsigned phase, uint64_t bytes,
                                uint64_t seq) {
  constexpr uint64_t kDigest = ((UINT64_C(1) << 38) - 1) << 24;
  return static_cast<uint64_t>(phase) << 62 | (mix(digest + bytes) & kDigest) |
         (seq & 0xffffff);
}

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_SLOTS_H_
