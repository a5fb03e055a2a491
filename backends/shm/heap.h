// Memory that callers asked for (mem_alloc): it lies where the other ranks can
// map it, so that operations find its elements there.
//
// A rank takes from its own heap, and maps another's when an operation first
// names a place in that. A place counts on behind the plot of its rank. What is
// given back is the kernel's at once; but the address stays one for ever, so
// that who still reads or writes there does no harm.
//
// Threads: any, once settled. Ownership: of the arena.
#ifndef DISTWRAP_BACKENDS_SHM_HEAP_H_
#define DISTWRAP_BACKENDS_SHM_HEAP_H_

#include "layout.h"
#include "segment.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace shm_backend {

// What an operation of a communicator has of this rank's heap right now.
struct Lease {
  struct Range {
    std::atomic<size_t> begin = 0, end = 0;
  };
  Range in, out;
};

class Heap {
 public:
  // Address space, not memory. Places are counted in lines of 32 bits.
  static constexpr size_t kMost = size_t{64} << 30;
  // What the process may map and write leaves this for each rank.
  static size_t within_limits(size_t ranks, size_t before);

  Heap() = default;
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  void settle(const Segment& segment, size_t begin, const Header& header,
              int rank);

  // Of this rank's: whole pages that are there.
  int32_t take(size_t bytes, size_t* place, char** data, dw_error* error);
  // DW_FAILED_PRECONDITION while an operation has it.
  int32_t give_back(size_t place, size_t bytes, dw_error* error);

  // Where this memory lies in this rank's heap; 0: elsewhere. Memory that was
  // not taken may have a place: then nothing is there, or zeros.
  size_t place_of(const void* data, size_t bytes) const {
    const auto at = reinterpret_cast<uintptr_t>(data) -
                    own_.load(std::memory_order_relaxed);
    if (at >= bytes_ || bytes > bytes_ - at) [[likely]]
      return 0;
    return first_ + at;
  }
  // What another rank says stands there; NULL when that cannot be.
  char* find(int rank, size_t place, size_t bytes);

  // Of a communicator, as long as that lasts.
  void add(const Lease* lease);
  void drop(const Lease* lease);

 private:
  // Parts of a rank's heap that were last seen to be there, each as a range of
  // pages in one word: the end below, the begin above.
  static constexpr size_t kSeen = 4;
  struct Other {
    std::atomic<char*> data = nullptr;
    std::atomic<uint64_t> seen[kSeen] = {};
    std::atomic<size_t> next = 0;
  };
  static bool has_seen(const Other& other, size_t at, size_t bytes);
  size_t file_of(int rank) const {
    return begin_ + static_cast<size_t>(rank) * bytes_;
  }
  char* map(int rank, dw_error* error);
  int32_t fail_full(size_t wanted, dw_error* error) const;

  const Segment* segment_ = nullptr;
  size_t begin_ = 0, bytes_ = 0;
  size_t first_ = 0;  // place of the heap's beginning
  int rank_ = 0;
  // Where the own one is mapped; not yet: where no address comes near.
  static constexpr uintptr_t kNowhere = uintptr_t{1} << 62;
  std::atomic<uintptr_t> own_ = kNowhere;
  std::unique_ptr<Other[]> ranks_;
  size_t n_ranks_ = 0;

  std::mutex mutex_;
  size_t taken_ = 0;               // from the front
  std::map<size_t, size_t> free_;  // of what is before that: begin, bytes
  std::vector<const Lease*> leases_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_HEAP_H_
