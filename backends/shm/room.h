// A rank's view of its group in the group segment.
//
// Threads: `wake_others`, `leave`, `ring` and `find` from any; `take` from any,
// one at a time.
#ifndef DISTWRAP_BACKENDS_SHM_ROOM_H_
#define DISTWRAP_BACKENDS_SHM_ROOM_H_

#include "arena.h"
#include "distances.h"
#include "layout.h"

#include <memory>
#include <mutex>
#include <vector>

namespace shm_backend {

class Room {
 public:
  Room() = default;
  // Leaves the group for good: its memory is not read or written afterwards.
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // Takes an area for this rank and writes the token there.
  int32_t enter(std::shared_ptr<Arena> arena, int size, uint64_t token,
                dw_error* error);
  // Offset of this rank's area in its region.
  size_t place() const { return pieces_.front().at; }
  // Called when all ranks have entered. `members`, by rank: each one's token
  // has to stand in its area.
  int32_t meet(int rank, std::vector<Arena::Member> members, dw_error* error);

  bool is_open() const { return !areas_.empty(); }
  const std::shared_ptr<Arena>& arena() const { return arena_; }
  int size() const { return static_cast<int>(areas_.size()); }
  int rank() const { return rank_; }
  // For each rank of the group, its rank in the segment's first group.
  const std::vector<int>& arena_ranks() const { return arena_ranks_; }

  // Every call passes here, so the subscript is not checked.
  Area& area(int rank) const { return *areas_.data()[rank]; }
  Area& mine() const { return *mine_; }
  Distances::Pulses pulses() const {
    Distances::Pulses all;
    for (const Area* const area : areas_) all.push_back(&area->pulse);
    return all;
  }
  // The lane of pieces that CMA moves between two ranks.
  CmaPiece& lane(int from, int to) const {
    return lanes_of(area(to), size())[from];
  }
  // Whether the rank's process has ended.
  bool has_died(int rank) const {
    return arena_->watch.has_ended(arena_ranks_[static_cast<size_t>(rank)]);
  }
  State state(int rank) const {
    return static_cast<State>(area(rank).state.load(std::memory_order_acquire));
  }

  // Takes more memory of this rank's region for the life of the group; `at` is
  // its offset.
  int32_t take(size_t bytes, size_t* at, dw_error* error);
  char* own(size_t at) const { return arena_->own(at); }
  // Memory at an offset that another rank has published; NULL when it does not
  // exist.
  char* find(int rank, size_t at, size_t bytes) const {
    return arena_->find(arena_ranks_[static_cast<size_t>(rank)], at, bytes);
  }

  // Called after a store that others may wait for. A sleeper has announced
  // itself long before; a rank that is about to sleep polls again after its
  // announcement.
  void wake_others() const {
    for (Area* const& one : areas_)
      if (one->sleepers.load(std::memory_order_relaxed) != 0 && one != mine_)
          [[unlikely]]
        ring(static_cast<int>(&one - areas_.data()));
  }
  void wake(int other) const {
    if (area(other).sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
      ring(other);
  }
  void ring(int rank) const;
  // Sets this rank's state for good: the first state that is not kOpen stays.
  void leave(State state) const;

 private:
  std::shared_ptr<Arena> arena_;
  int rank_ = 0;
  Area* mine_ = nullptr;
  std::vector<Area*> areas_;
  std::vector<int> arena_ranks_;
  std::vector<Arena::Member> members_;
  std::mutex mutex_;
  // this rank's parts; the area is the first
  std::vector<Arena::Piece> pieces_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_ROOM_H_
