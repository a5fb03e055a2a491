// Splits a piece that is too large for one round of staging.
#ifndef DISTWRAP_BACKENDS_SHM_PARTS_H_
#define DISTWRAP_BACKENDS_SHM_PARTS_H_

#include "sdk/buffers.h"

#include <algorithm>
#include <cstddef>

namespace shm_backend {

// Most bytes of a piece in one round.
inline constexpr size_t kMostInRound = 128 << 10;

// The part of a piece that begins at `at` and has at most `step` bytes.
inline dw_sdk::Piece part_of(dw_sdk::Piece piece, size_t at, size_t step) {
  const size_t begin = std::min(piece.bytes, at);
  return {piece.at + begin, std::min(step, piece.bytes - begin)};
}

inline size_t rounds_of(size_t bytes, size_t step) {
  return (bytes + step - 1) / step;
}

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_PARTS_H_
