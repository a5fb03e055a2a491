// What a communicator keeps for the operations in which each pair of ranks has
// a size of its own; pairs.cc.
#ifndef DISTWRAP_BACKENDS_SHM_PAIRS_H_
#define DISTWRAP_BACKENDS_SHM_PAIRS_H_

#include "lending.h"

#include <cstdint>

namespace shm_backend {

// Of this rank and one other. Both count alike what may go straight.
struct Pair {
  // Of what this rank gives, and of what it takes.
  Lending gives{Lending::kAnySize}, takes{Lending::kAnySize};
  uint32_t given = 0, taken = 0;

  // Of the operation: what goes straight, and since when the other is in it,
  // where that is a try.
  bool gives_straight = false, takes_straight = false, tries = false;
  int64_t began_ns = 0;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_PAIRS_H_
