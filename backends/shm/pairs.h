// Operations in which each pair of ranks has sizes of its own: what two ranks
// tell each other, and what a communicator keeps for them.
#ifndef DISTWRAP_BACKENDS_SHM_PAIRS_H_
#define DISTWRAP_BACKENDS_SHM_PAIRS_H_

#include "layout.h"
#include "lending.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shm_backend {

// A cell: the message of one rank to one other rank in a round.
struct Cell {
  struct Staged {
    uint64_t at;       // offset in the data staged for the round
    int64_t began_ns;  // when the operation began, if both ways are tried
  };
  uint64_t gives;  // bytes of the whole piece; kStraight: by CMA
  uint64_t takes;  // bytes that it takes from the other
  char inside[kInside - 2 * sizeof(uint64_t)];  // the piece itself, or Staged

  static constexpr uint64_t kStraight = uint64_t{1} << 63;
  // Offset of a rank's cell in a table with a line for each.
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
// Bytes of a piece that go in one round with the staging in use.
size_t pair_part(const Comm& comm);

// State of this rank and one other. Both count alike the pieces that CMA may
// move.
struct Pair {
  // Tuning for what this rank gives, and for what it takes.
  Lending gives{Lending::kAnySize}, takes{Lending::kAnySize};
  uint32_t given = 0, taken = 0;

  // For the running operation: which pieces CMA moves, whether one is a try,
  // and for a try when the other rank entered the operation.
  bool gives_straight = false, takes_straight = false, tries = false;
  int64_t began_ns = 0;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_PAIRS_H_
