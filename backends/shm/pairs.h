// Operations in which each pair of ranks has a size of its own, as two ranks
// tell each other of them, and what a communicator keeps for them.
#ifndef DISTWRAP_BACKENDS_SHM_PAIRS_H_
#define DISTWRAP_BACKENDS_SHM_PAIRS_H_

#include "layout.h"
#include "lending.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shm_backend {

// What a rank tells another in a round.
struct Cell {
  struct Staged {
    uint64_t at;       // in what is staged for the round
    int64_t began_ns;  // the operation, where both ways are tried
  };
  uint64_t gives;  // bytes of the whole piece; kStraight
  uint64_t takes;  // of the other
  char inside[kInside - 2 * sizeof(uint64_t)];  // the piece, or Staged

  static constexpr uint64_t kStraight = uint64_t{1} << 63;
  // Of a rank's cell in a table, a line each.
  static constexpr size_t place(int rank) {
    return static_cast<size_t>(rank) * kLine;
  }
  static bool holds(size_t bytes) { return bytes <= sizeof inside; }
  Staged staged() const {
    Staged staged;
    std::memcpy(&staged, inside, sizeof staged);
    return staged;
  }
  void set(const Staged& staged) {
    std::memcpy(inside, &staged, sizeof staged);
  }
};
static_assert(sizeof(Cell) == kInside);

struct Comm;
// How much of a piece goes in a round, with the staging in use.
size_t pair_part(const Comm& comm);

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
