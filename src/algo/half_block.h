// Many 16-bit floats at once, by the instructions that this machine has. The
// numbers are those of half.h, except that a signalling NaN may become quiet on
// either way.
#ifndef DISTWRAP_SRC_ALGO_HALF_BLOCK_H_
#define DISTWRAP_SRC_ALGO_HALF_BLOCK_H_

#include <cstdint>

namespace distwrap::algo {

struct HalfBlock {
  void (*widen)(float* out, const uint16_t* in, uint64_t count);
  void (*narrow)(uint16_t* out, const float* in, uint64_t count);
};

// For any machine.
extern const HalfBlock kPlainF16, kPlainBF16;

// For this machine; chosen at the first call.
const HalfBlock& f16_block();
const HalfBlock& bf16_block();

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_HALF_BLOCK_H_
