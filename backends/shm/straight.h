// Data that go straight from one rank's buffer into another's: one copy, by the
// kernel, where staging takes two.
//
//   Straight move(run, 2);
//   move.give(other, {in, bytes});
//   move.take(other, {out, bytes});
//   move.go();
//
// Every rank shows where its pieces lie. The receiver of a piece reads parts of
// it from the front; who has nothing to read writes parts of what it gives from
// the back, so that both ends' processors copy, and nobody waits for one that
// has no processor. Both ends stay in the operation until the piece is there.
//
// A rank that gives up before that is no longer read or written: who reads
// looks whether it is still there afterwards, and who writes has the place and
// length in shared memory, where the receiver takes them back (`Lane`). What is
// under way in the kernel then, 512 KiB at most, is waited for.
//
// An address that another rank has shown is used only with its seal, of which a
// part is not in the shared memory.
#ifndef DISTWRAP_BACKENDS_SHM_STRAIGHT_H_
#define DISTWRAP_BACKENDS_SHM_STRAIGHT_H_

#include "call.h"
#include "reach.h"
#include "wait.h"

#include <cstddef>
#include <cstdint>

namespace shm_backend {

class Run;

// Of this rank and one other, in one operation.
struct Way {
  // A piece that moves from one to the other.
  struct End {
    Piece piece;         // here
    uint64_t there = 0;  // the other's address of it
    bool open = false;   // by a lane, and not all has moved
    uint32_t moved = 0;  // parts, by this rank
    // Once all parts have been begun with: how many from the front, and back.
    bool is_begun = false;
    uint32_t front = 0, back = 0;
  };
  End give, take;
  bool due = false;   // it has to show, and has not been looked at
  bool lost = false;  // what has begun will not end: the reason will be told
};

class Straight final : public Condition {
 public:
  // Pieces go in about so many parts; places are shown in that round, the last
  // one that shows anything.
  Straight(Run& run, size_t parts, uint32_t round = 0);

  // At most one of each with every other rank, of a byte or more. Both ranks of
  // a pair say the same bytes.
  void give(int to, Piece piece);
  void take(int from, Piece piece);
  // From this rank to itself, while others come.
  void keep(Piece to, Piece from);

  // False: the call has failed, and nobody touches the buffers any more.
  bool go();

 private:
  struct Entry;
  struct Part {
    size_t at, bytes;
  };

  bool holds() override;
  bool awaits(int rank) override;
  int64_t busy_ns() override;

  Way& way(int other) const;
  Lane& lane(int from, int to) const;
  size_t part_bytes(size_t all) const;
  uint32_t parts_of(size_t all) const;
  Part part_of(size_t all, uint32_t number) const;
  bool begin_part(Lane& lane, Way::End& end, bool back, uint32_t* number) const;
  bool is_received(int other, const Lane& lane, const Way::End& give) const;
  bool is_sent(const Lane& lane, const Way::End& take) const;
  uint64_t seal_of(int owner, int other, const Entry& entry) const;

  void open_lanes();
  void show();
  void see(int other);
  bool pull(int other);
  bool push(int other);
  bool move_some();
  void give_up();
  bool is_gone(int other, Reach::Got got);

  Run& run_;
  const size_t parts_;
  const uint32_t round_;
  const bool inside_;   // the table fits the post
  const uint64_t tag_;  // of this operation in the words of lanes
  Piece own_to_, own_from_;
  size_t bytes_ = 0;
  bool shows_ = false;
  size_t moved_ = 0;  // in this turn
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_STRAIGHT_H_
