// A rank's view of its group's memory.
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
  // Leaves for good: nothing of the group is read or written afterwards.
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // Takes an area for this rank, and shows the token there.
  int32_t enter(std::shared_ptr<Arena> arena, int size, uint64_t token,
                dw_error* error);
  // Where the others find it.
  size_t place() const { return pieces_.front().at; }
  // Once all have entered: the members, by rank, each of whose tokens has to
  // stand in its area.
  int32_t meet(int rank, std::vector<Arena::Member> members, dw_error* error);

  bool is_open() const { return !areas_.empty(); }
  const std::shared_ptr<Arena>& arena() const { return arena_; }
  int size() const { return static_cast<int>(areas_.size()); }
  int rank() const { return rank_; }
  // Of its arena.
  const std::vector<int>& arena_ranks() const { return arena_ranks_; }

  // On the way of every call: not a subscript that is checked.
  Area& area(int rank) const { return *areas_.data()[rank]; }
  Area& mine() const { return *mine_; }
  Distances::Pulses pulses() const {
    Distances::Pulses all;
    for (const Area* const area : areas_) all.push_back(&area->pulse);
    return all;
  }
  // Of what goes straight from one rank to another.
  Lane& lane(int from, int to) const {
    return lanes_of(area(to), size())[from];
  }
  // Its process has ended.
  bool has_died(int rank) const {
    return arena_->watch.has_ended(arena_ranks_[static_cast<size_t>(rank)]);
  }
  State state(int rank) const {
    return static_cast<State>(area(rank).state.load(std::memory_order_acquire));
  }

  // More memory of this rank, as long as the group lasts; where in its plot.
  int32_t take(size_t bytes, size_t* at, dw_error* error);
  char* own(size_t at) const { return arena_->own(at); }
  // What a rank says stands there; NULL when that cannot be.
  char* find(int rank, size_t at, size_t bytes) const {
    return arena_->find(arena_ranks_[static_cast<size_t>(rank)], at, bytes);
  }

  // After something was written that others may wait for. Whoever sleeps has
  // said so long before; who is about to looks again afterwards.
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
  // For good: the first state that is not open stays.
  void leave(State state) const;

 private:
  std::shared_ptr<Arena> arena_;
  int rank_ = 0;
  Area* mine_ = nullptr;
  std::vector<Area*> areas_;
  std::vector<int> arena_ranks_;
  std::vector<Arena::Member> members_;
  std::mutex mutex_;
  std::vector<Arena::Piece> pieces_;  // this rank's; the area is the first
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_ROOM_H_
