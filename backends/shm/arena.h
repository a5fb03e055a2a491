// Memory of the ranks of a group and of all groups that are split from it,
// mapped once by each rank.
//
// Every rank has a plot, and takes from it what it owns in its groups: so
// nothing has to be agreed on, and a new group needs no descriptor, no mapping
// and no socket. The plots are large and mostly not there; a rank reserves its
// own from the front as it needs it, and gives nothing back to the kernel
// before the last group has ended.
//
// What a rank had in a group that it has left may still be read by who has not.
// It is used again when every other member has left, or has died.
//
// Threads: any, once it is open. Ownership: shared by its groups.
#ifndef DISTWRAP_BACKENDS_SHM_ARENA_H_
#define DISTWRAP_BACKENDS_SHM_ARENA_H_

#include "heap.h"
#include "layout.h"
#include "processors.h"
#include "segment.h"
#include "watch.h"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace shm_backend {

class Arena {
 public:
  // The first rank's: makes the memory, as `header` says; of `plot_bytes` it
  // says what there is at most.
  int32_t create(Header header, dw_error* error);
  // Another's: looks whether it is what the first rank said.
  int32_t adopt(Descriptor fd, const Header& wanted, dw_error* error);
  // Both, then.
  void settle(int rank);

  int fd() const { return segment_.fd(); }
  int rank() const { return rank_; }
  uint64_t nonce() const { return header_.nonce; }
  size_t stage_bytes() const { return header_.stage_bytes; }
  const Tuning& tuning() const { return header_.tuning; }
  size_t plot_bytes() const { return header_.plot_bytes; }
  // Those of this rank when it came here.
  const Processors& processors() const { return processors_; }

  // Of this rank's plot. What was an area once is only used as one again.
  enum class Kind { kArea, kData };
  struct Piece {
    Kind kind;
    size_t bytes, at;
  };
  int32_t take(Kind kind, size_t bytes, Piece* piece, dw_error* error);
  // A member of a group.
  struct Member {
    int rank;     // of the arena
    size_t area;  // in its plot
    uint64_t token;
  };
  // What this rank had in a group that it has left; of the others, those that
  // may use it.
  void retire(std::vector<Piece> pieces, std::vector<Member> others);

  // This rank's own.
  char* own(size_t at) const { return plot(rank_) + at; }
  // What stands in a rank's plot; NULL when not all of that is there.
  char* find(int rank, size_t at, size_t bytes) const {
    const size_t known =
        known_[static_cast<size_t>(rank)].load(std::memory_order_relaxed);
    if (at <= known && bytes <= known - at) [[likely]]
      return plot(rank) + at;
    return look_for(rank, at, bytes);
  }

  // Places in it follow those in the plot.
  Heap& heap() { return heap_; }

  Watch watch;

 private:
  struct Retired {
    std::vector<Piece> pieces;
    std::vector<Member> others;
  };

  char* plot(int rank) const {
    return plots_ + static_cast<size_t>(rank) * header_.plot_bytes;
  }
  char* look_for(int rank, size_t at, size_t bytes) const;
  void open();
  int32_t grow(size_t bytes, dw_error* error);
  bool take_free(Kind kind, size_t bytes, Piece* piece);
  bool have_left(std::vector<Member>& others, bool look_for_dead) const;
  void collect(size_t most, bool look_for_dead);

  Segment segment_;
  Header header_ = {};
  mutable Heap heap_;
  int rank_ = 0;
  Processors processors_ = {};
  char* plots_ = nullptr;
  // How much of each plot is known to be there, from its front.
  std::unique_ptr<std::atomic<size_t>[]> known_;

  std::mutex mutex_;
  size_t taken_ = 0, reserved_ = 0;  // of the own plot, from its front
  std::map<std::pair<Kind, size_t>, std::vector<size_t>> free_;
  std::deque<Retired> retired_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_ARENA_H_
