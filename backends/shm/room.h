// A rank's view of its group's memory.
//
// Threads: `wake_others`, `set_state` and `wake_self` from any.
#ifndef DISTWRAP_BACKENDS_SHM_ROOM_H_
#define DISTWRAP_BACKENDS_SHM_ROOM_H_

#include "layout.h"
#include "segment.h"

namespace shm_backend {

class Room {
 public:
  // The first rank's: makes the memory, with the control areas of all.
  int32_t create(const Header& header, dw_error* error);
  // Another's: looks whether it is what the first rank said.
  int32_t adopt(Descriptor fd, const Header& wanted, dw_error* error);
  // Both, then: reserves this rank's staging, and shows the token.
  int32_t enter(int rank, uint64_t token, dw_error* error);

  bool is_open() const { return segment_.data() != nullptr; }
  int fd() const { return segment_.fd(); }
  int size() const { return static_cast<int>(layout_.size); }
  int rank() const { return rank_; }
  size_t stage_bytes() const { return layout_.stage_bytes; }

  Area& area(int rank) const { return areas_[rank]; }
  Area& mine() const { return areas_[rank_]; }
  State state(int rank) const {
    return static_cast<State>(
        areas_[rank].state.load(std::memory_order_acquire));
  }
  char* stage(int rank) const {
    return stages_ + static_cast<size_t>(rank) * layout_.stage_bytes;
  }

  Box& box(int from, int to) const {
    return *reinterpret_cast<Box*>(
        segment_.data() + layout_.boxes(static_cast<size_t>(from)) +
        static_cast<size_t>(to) * layout_.box_bytes());
  }
  size_t lines() const { return layout_.lines(); }
  char* pool(int rank) const {
    return segment_.data() + layout_.pool(static_cast<size_t>(rank));
  }

  // The large staging of this rank, and its pool; once each.
  int32_t reserve_stage(dw_error* error);
  int32_t reserve_pool(dw_error* error);

  // After something was written that others may wait for. Whoever sleeps has
  // said so long before; who is about to looks again afterwards.
  void wake_others() const {
    for (int other = 0; other < size(); ++other)
      if (areas_[other].sleepers.load(std::memory_order_relaxed) != 0 &&
          other != rank_) [[unlikely]]
        ring(other);
  }
  void wake(int other) const {
    if (areas_[other].sleepers.load(std::memory_order_relaxed) != 0)
        [[unlikely]]
      ring(other);
  }
  void ring(int rank) const;
  // For good: the first state that is not open stays.
  void leave(State state) const;

 private:
  Segment segment_;
  Layout layout_;
  int rank_ = 0;
  Area* areas_ = nullptr;
  char* stages_ = nullptr;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_ROOM_H_
