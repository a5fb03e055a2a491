// Pieces of any size in flight. A large piece is sent in segments, of which the
// receiver requests four at a time: the rest stays in the sender's memory
// instead of the kernel's, which would be far from all caches.
#ifndef DISTWRAP_BACKENDS_GLOO_FLOW_H_
#define DISTWRAP_BACKENDS_GLOO_FLOW_H_

#include "run.h"

#include <algorithm>

namespace gloo_backend {

inline constexpr size_t kFlowSegment = size_t{512} * 1024;
inline constexpr size_t kAskedFor = 4;

// One piece between this rank and a peer, and its progress.
class Flow {
 public:
  // With two ranks there is no third one to pass data to or take turns with, so
  // one segment is enough.
  Flow(const Run& run, int peer, Piece piece)
      : run_(run),
        peer_(peer),
        piece_(piece),
        segment_(run.size == 2 ? std::max(piece.bytes, size_t{1})
                               : kFlowSegment) {}

  size_t segments() const { return (piece_.bytes + segment_ - 1) / segment_; }

  void send(size_t s) const { transfer(Direction::kSend, s); }
  void send_all() const {
    for (size_t s = 0; s < segments(); ++s) send(s);
  }
  void wait_all_sent() const {
    for (size_t s = 0; s < segments(); ++s)
      run_.desk.lanes[0].to(peer_).finish(Direction::kSend);
  }

  void ask() const {
    for (size_t s = 0; s < std::min(segments(), kAskedFor); ++s)
      transfer(Direction::kReceive, s);
  }
  // Waits for segment `s`, in order, and requests another one.
  void take(size_t s) const {
    run_.desk.lanes[0].to(peer_).finish(Direction::kReceive);
    if (s + kAskedFor < segments())
      transfer(Direction::kReceive, s + kAskedFor);
  }

 private:
  // The two sides have to agree on the size of the whole piece, whatever its
  // segments.
  void transfer(Direction direction, size_t s) const {
    const size_t begin = s * segment_;
    run_.transfer(direction, peer_,
                  {piece_.at + begin, std::min(segment_, piece_.bytes - begin)},
                  run_.call.digest ^ mix(piece_.bytes), 0);
  }

  const Run& run_;
  const int peer_;
  const Piece piece_;
  const size_t segment_;
};

// Sends `piece_of(peer)` to all peers, or receives it from all. Each rank
// begins with its nearest peer, so that not all begin with the same one.
template <typename PieceOf>
void send_to_all(const Run& run, const PieceOf& piece_of) {
  for (int d = 1; d < run.size; ++d)
    Flow(run, run.after(d), piece_of(run.after(d))).send_all();
}

template <typename PieceOf>
void wait_sent_to_all(const Run& run, const PieceOf& piece_of) {
  for (int d = 1; d < run.size; ++d)
    Flow(run, run.after(d), piece_of(run.after(d))).wait_all_sent();
}

template <typename PieceOf>
void ask_all(const Run& run, const PieceOf& piece_of) {
  for (int d = 1; d < run.size; ++d)
    Flow(run, run.before(d), piece_of(run.before(d))).ask();
}

template <typename PieceOf>
void take_from_all(const Run& run, const PieceOf& piece_of) {
  bool more = true;
  for (size_t s = 0; more; ++s) {
    more = false;
    for (int d = 1; d < run.size; ++d) {
      const Flow flow(run, run.before(d), piece_of(run.before(d)));
      if (s < flow.segments()) flow.take(s);
      more |= s + 1 < flow.segments();
    }
  }
}

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_FLOW_H_
