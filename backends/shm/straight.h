// CMA transfers: the kernel copies data from one rank's buffer into another's,
// once, where staging copies twice.
//
//   Straight move(run, 2);
//   move.give(other, {in, bytes});
//   move.take(other, {out, bytes});
//   move.go();
//
// Every rank publishes the addresses of its pieces. The receiver of a piece
// reads parts of it from the front; a sender that has nothing to read writes
// parts from the back, so both processors copy and no rank waits for one
// without a processor. Both ends stay in the operation until the piece has
// moved.
//
// The memory of a rank that gives up earlier is no longer read or written: a
// reader checks afterwards that the rank is still there, and a writer has place
// and length in shared memory (`CmaPiece`), where the receiver withdraws them.
// A write that the kernel has begun, 512 KiB at most, is waited for.
//
// An address that another rank has published is used only with its seal, part
// of which is not in the shared memory.
//
// Threads: the one that runs collectives.
#ifndef DISTWRAP_BACKENDS_SHM_STRAIGHT_H_
#define DISTWRAP_BACKENDS_SHM_STRAIGHT_H_

#include "call.h"
#include "reach.h"
#include "wait.h"

#include <cstddef>
#include <cstdint>

namespace shm_backend {

class Run;
struct Comm;

// This rank's transfers with one other rank in one operation.
struct PeerTransfers {
  // A piece that moves between the two ranks.
  struct End {
    Piece piece;         // in this rank's buffer
    uint64_t there = 0;  // address of the piece in the other process
    bool open = false;   // the lane is open, the piece has not moved completely
    uint32_t moved = 0;  // parts that this rank has moved
    // Once all parts have been begun: how many from the front and from the
    // back.
    bool is_begun = false;
    uint32_t front = 0, back = 0;
  };
  End give, take;
  bool due = false;   // this rank has yet to read what the other publishes
  bool lost = false;  // the transfer will not end; the reason will be told
};

// Called by a rank that has given up, and has said so: no write of `from` into
// its memory begins any more, and one that has begun has ended, unless that
// takes until `end_ns`.
void stop_writes_of(int from, Comm* comm, int64_t end_ns);
// The longest wait for writes in progress.
inline constexpr int64_t kLastWriteNs = 50'000'000;

class Straight final : public Condition {
 public:
  // A piece is moved in about `parts` parts. Addresses are published in
  // `round`, the last round that publishes anything.
  Straight(Run& run, size_t parts, uint32_t round = 0);

  // At most one `give` and one `take` for each other rank, of one byte or more.
  // Both ranks of a pair give equal numbers of bytes.
  void give(int to, Piece piece);
  void take(int from, Piece piece);
  // Copies from this rank to itself, while other ranks come.
  void keep(Piece to, Piece from);

  // Moves all pieces. False: the call has failed, and nobody touches the
  // buffers any more.
  bool go();

 private:
  struct Entry;
  struct Range {
    size_t at, bytes;
  };

  bool holds() override;
  bool awaits(int rank) override;
  int64_t busy_ns() override;

  PeerTransfers& way(int other) const;
  CmaPiece& lane(int from, int to) const;
  size_t part_bytes(size_t all) const;
  uint32_t parts_of(size_t all) const;
  Range part_of(size_t all, uint32_t number) const;
  bool begin_part(CmaPiece& lane, PeerTransfers::End& end, bool back,
                  uint32_t* number) const;
  bool is_received(int other, const CmaPiece& lane,
                   const PeerTransfers::End& give) const;
  bool is_sent(const CmaPiece& lane, const PeerTransfers::End& take) const;
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
  const bool inside_;   // the table fits the slot
  const uint64_t tag_;  // the operation's number in the words of lanes
  Piece own_to_, own_from_;
  size_t bytes_ = 0;
  bool shows_ = false;
  size_t moved_ = 0;  // bytes moved in this turn
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_STRAIGHT_H_
