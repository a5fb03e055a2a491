// The group segment: the memory that the ranks of a group share, also used by
// all groups that are split from it. Each rank maps it once.
//
// Every rank takes memory for its groups from its own region (`plot`), so the
// ranks need not agree on places, and a new group needs no descriptor, mapping
// or socket. A region is a large range of addresses of which little is
// reserved; its rank reserves it from the front as needed, and returns nothing
// to the kernel before the last group has ended.
//
// Memory of a rank in a group that it has left may still be read by members
// that have not left. It is reused when every other member has left or died.
//
// Threads: any, once it is open. Ownership: shared by its groups.
#ifndef DISTWRAP_BACKENDS_SHM_ARENA_H_
#define DISTWRAP_BACKENDS_SHM_ARENA_H_

#include "heap.h"
#include "hostmem/processors.h"
#include "hostmem/segment.h"
#include "layout.h"
#include "watch.h"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace shm_backend {

using dw_hostmem::Descriptor;
using dw_hostmem::Processors;
using dw_hostmem::Segment;

class Arena {
 public:
  // Rank 0: makes the memory described by `header`, whose sizes of regions and
  // heaps it sets by the limits of this process.
  int32_t create(Header header, dw_error* error);
  // Other ranks: takes over rank 0's memory and checks it against `wanted`.
  int32_t adopt(Descriptor fd, const Header& wanted, dw_error* error);
  // All ranks, after `create` or `adopt`: makes the object ready for `rank`.
  void settle(int rank);

  int fd() const { return segment_.fd(); }
  int rank() const { return rank_; }
  uint64_t nonce() const { return header_.nonce; }
  size_t stage_bytes() const { return header_.stage_bytes; }
  const Tuning& tuning() const { return header_.tuning; }
  size_t plot_bytes() const { return header_.plot_bytes; }
  // The processors that this rank might use when it joined.
  const Processors& processors() const { return processors_; }

  // A part of this rank's region. Memory that was an area once is only used as
  // an area again.
  enum class Kind { kArea, kData };
  struct Piece {
    Kind kind;
    size_t bytes, at;
  };
  int32_t take(Kind kind, size_t bytes, Piece* piece, dw_error* error);
  struct Member {
    int rank;     // rank in the segment's first group
    size_t area;  // offset in its region
    uint64_t token;
  };
  // Hands over this rank's parts of a group that it has left, and the other
  // members, which may still use them.
  void retire(std::vector<Piece> pieces, std::vector<Member> others);

  // Memory at offset `at` of this rank's region.
  char* own(size_t at) const { return plot(rank_) + at; }
  // Memory of another rank's region; NULL when part of it does not exist.
  char* find(int rank, size_t at, size_t bytes) const {
    const size_t known =
        known_[static_cast<size_t>(rank)].load(std::memory_order_relaxed);
    if (at <= known && bytes <= known - at) [[likely]]
      return plot(rank) + at;
    return look_for(rank, at, bytes);
  }

  // Places in a heap follow the offsets of its rank's region.
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

  Segment segment_{"shm"};
  Header header_ = {};
  mutable Heap heap_;
  int rank_ = 0;
  Processors processors_ = {};
  char* plots_ = nullptr;
  // For each region, the number of bytes from its front that are known to
  // exist.
  std::unique_ptr<std::atomic<size_t>[]> known_;

  std::mutex mutex_;
  size_t taken_ = 0, reserved_ = 0;  // bytes of the own region, from its front
  std::map<std::pair<Kind, size_t>, std::vector<size_t>> free_;
  std::deque<Retired> retired_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_ARENA_H_
