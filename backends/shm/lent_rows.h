// Rows that do not pass the staging, since one of two ranks lends memory of
// `mem_alloc` (abi/moe.h). If a taker lends its output, the giver writes the
// rows to their places there. If the taker adds rows up, it reads them where
// they lie in the input that the giver lends.
//
// A lender publishes a list beside its memory: the places of the rows that
// come, or the rows that it gives. From the offers of both ranks both know the
// way of the rows between them. Only the first channel is lent. Weights of rows
// that are added up stand in the list; other channels are staged.
//
//   LentRows lent(run, adds);
//   lent.offer();
//   cell.set_offer(lent.offer_to(other));     // in round 0
//   lent.agree(other, theirs.offer());   // sets the ways of the pair
//   while (lent.write(other, upto)) upto += some;
//
// A taker that gives up lets no write into its memory begin, and waits for one
// that has begun (`stop_writes_of`), as the receiver of a CMA transfer does.
//
// Threads: the one that runs collectives.
#ifndef DISTWRAP_BACKENDS_SHM_LENT_ROWS_H_
#define DISTWRAP_BACKENDS_SHM_LENT_ROWS_H_

#include "pairs.h"

#include <cstddef>
#include <cstdint>

namespace shm_backend {

class Run;

class LentRows {
 public:
  LentRows(Run& run, bool adds);

  // Whether the two ranks tell each other what they lend, in a round in which
  // no row moves. Both know the bytes of their pieces.
  static bool is_told(size_t gives, size_t takes) {
    constexpr size_t kLeast = 64 << 10;
    return gives >= kLeast || takes >= kLeast;
  }

  // Lends this rank's memory to all ranks that it tells.
  void offer();
  const RowOffer& offer_to(int other) const { return pair(other).offer; }
  // Takes the other rank's offer: the ways of the pair are known.
  void agree(int other, const RowOffer& theirs);

  // Bytes of a piece of `bytes` that are staged.
  size_t staged(RowWay way, size_t bytes) const {
    if (way == RowWay::kStaged) return bytes;
    return way == RowWay::kRead ? 0 : bytes / row_bytes_ * (row_bytes_ - part_);
  }
  // Writes to `to` until `upto` bytes are there. False: there are no more, or
  // the call has failed.
  bool write(int to, size_t upto);

  // Whether other ranks use this rank's memory until the operation ends.
  bool lends() const { return lends_; }
  // Called when the call has failed: nobody writes to this rank's memory any
  // more.
  void give_up() const;
  // Called when the operation has ended: learns which way is faster.
  void learn() const;

 private:
  Pair& pair(int other) const;
  size_t gives(int to) const;
  size_t takes(int from) const;
  template <class Body>
  void for_told(const Body& body) const;

  // The rows that a list for `other` is about; 0: there is no list.
  size_t listed(int other) const;
  RowListHead head_for(int other) const;
  bool fill(int other, RowListHead head, char* at);
  void choose(int other);
  void write_part(int to, size_t row, size_t skip, size_t bytes) const;

  Run& run_;
  const bool adds_;
  const size_t row_bytes_, part_;  // bytes of a row, and of its lent part
  bool lends_ = false;
  size_t rows_ = 0;  // the rows of the lent memory
  int64_t began_ns_ = 0;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_LENT_ROWS_H_
