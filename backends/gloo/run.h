// Runs an operation to its end in the calling thread.
#ifndef DISTWRAP_BACKENDS_GLOO_RUN_H_
#define DISTWRAP_BACKENDS_GLOO_RUN_H_

#include "backend.h"
#include "call.h"
#include "desk.h"

#include <cstring>

namespace gloo_backend {

// DW_OK, or an error. An exception of Gloo breaks the communicator.
int32_t run(dw_comm* comm, Desk& desk, const EngineOp& call, dw_error* error);

// A running operation.
class Run {
 public:
  Run(dw_comm* whose, Desk& used, const EngineOp& made)
      : comm(whose),
        desk(used),
        call(made),
        rank(whose->rank),
        size(whose->size) {}

  dw_comm* const comm;
  Desk& desk;
  const EngineOp& call;
  const int rank;
  const int size;

  bool is_root() const { return call.peer == rank; }
  // The peer at a distance; ranks begin with different peers.
  int after(int distance) const {
    return rank + distance < size ? rank + distance : rank + distance - size;
  }
  int before(int distance) const { return after(size - distance); }

  // Starts one transfer. Nothing is sent for zero bytes, since the two sides
  // know the size.
  void send(int peer, Piece piece, unsigned phase = 0) const {
    if (piece.bytes != 0)
      transfer(Direction::kSend, peer, piece, call.digest, phase);
  }
  void receive(int peer, Piece piece, unsigned phase = 0) const {
    if (piece.bytes != 0)
      transfer(Direction::kReceive, peer, piece, call.digest, phase);
  }
  void wait_sent(int peer, Piece piece, unsigned phase = 0) const {
    if (piece.bytes != 0) desk.lanes[phase].to(peer).finish(Direction::kSend);
  }
  void wait_received(int peer, Piece piece, unsigned phase = 0) const {
    if (piece.bytes != 0)
      desk.lanes[phase].to(peer).finish(Direction::kReceive);
  }

  void transfer(Direction direction, int peer, Piece piece, uint64_t digest,
                unsigned phase) const {
    Lane& lane = desk.lanes[phase].to(peer);
    const uint64_t slot = collective_slot(digest, phase, piece.bytes, call.seq);
    if (direction == Direction::kSend)
      lane.send(piece.at, piece.bytes, slot);
    else
      lane.receive(piece.at, piece.bytes, slot);
  }
};

inline void copy(Piece from, Piece to) {
  if (from.at != to.at && to.bytes != 0) std::memcpy(to.at, from.at, to.bytes);
}

// reductions.cc. These functions throw Gloo's exceptions.
int32_t reduce_to_all(const Run& run, dw_error* error);
int32_t reduce_to_root(const Run& run, dw_error* error);
int32_t reduce_and_scatter(const Run& run, dw_error* error);

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_RUN_H_
