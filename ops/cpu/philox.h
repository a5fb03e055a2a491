// Random bits by block: four words that depend on a seed, a call and the number
// of the block.
//
// Threads: any. Ownership: none.
#ifndef DISTWRAP_OPS_CPU_PHILOX_H_
#define DISTWRAP_OPS_CPU_PHILOX_H_

#include "distwrap/random.h"

#include <cstdint>

namespace distwrap::cpu {

// Writes 4 * n words, those of blocks `first` to first + n - 1. Philox4x32-10
// (Salmon et al. 2011): the key is the seed, the counter is the block and the
// call, each with the low word first.
void philox(const Generator& generator, int64_t first, int64_t n,
            uint32_t* out);

}  // namespace distwrap::cpu

#endif  // DISTWRAP_OPS_CPU_PHILOX_H_
