// Operations in which each pair of ranks has sizes of its own: what two ranks
// tell each other, and what a communicator keeps for them.
#ifndef DISTWRAP_BACKENDS_SHM_PAIRS_H_
#define DISTWRAP_BACKENDS_SHM_PAIRS_H_

#include "layout.h"
#include "lending.h"
#include "row_list.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shm_backend {

// How rows move from one rank to another.
enum class RowWay {
  kStaged,
  kWritten,  // the giver writes them to their places in the taker's memory
  kRead      // the taker adds them up where they lie in the giver's memory
};

// A rank's message to one other about memory that it lends for rows
// (lent_rows.h).
struct RowOffer {
  uint64_t place = 0;  // the memory's place in its heap; 0: nothing is lent
  uint64_t list = 0;   // where the list for the other rank lies there
  // Bytes of the part of a row that may be lent, and the bits below.
  uint64_t part = 0;
  int64_t began_ns = 0;  // when the operation began

  static constexpr uint64_t kAdds = uint64_t{1} << 63;   // adds rows up
  static constexpr uint64_t kWants = uint64_t{1} << 62;  // wants lent rows
  static constexpr uint64_t kFlags = kAdds | kWants;
};

// A cell: the message of one rank to one other rank in a round.
struct Cell {
  struct Staged {
    uint64_t at;       // offset in the data staged for the round
    int64_t began_ns;  // when the operation began, if both ways are tried
  };
  uint64_t gives;  // bytes of the whole piece; kStraight: by CMA
  uint64_t takes;  // bytes that it takes from the other
  // The piece itself, Staged, or RowOffer.
  char inside[kInside - 2 * sizeof(uint64_t)];

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
  RowOffer offer() const {
    RowOffer offer;
    std::memcpy(&offer, inside, sizeof offer);
    return offer;
  }
  void set_offer(const RowOffer& offer) {
    static_assert(sizeof offer <= sizeof inside);
    std::memcpy(inside, &offer, sizeof offer);
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

  // Tuning for the rows that this rank takes.
  Lending takes_rows{Lending::kAnySize};
  uint32_t rows_taken = 0;
  // For the running operation, if its rows are told (lent_rows.h): `offer` is
  // this rank's, and `list` belongs to the other one.
  RowWay rows_given = RowWay::kStaged, rows_come = RowWay::kStaged;
  bool tries_rows = false;
  RowOffer offer;
  RowList list;
  size_t written = 0;  // bytes of lent parts
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_PAIRS_H_
