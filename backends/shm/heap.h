// Memory that callers allocate (mem_alloc). It lies where the other ranks can
// map it, so operations can read its elements in place.
//
// A rank allocates in its own heap, and maps another rank's heap when an
// operation first names a place there. Places in a heap follow the offsets of
// its rank's region. Released memory goes back to the kernel at once, but its
// addresses stay mapped, so a late reader or writer does no harm.
//
// Threads: any, after `settle`. Ownership: owned by the Arena.
#ifndef DISTWRAP_BACKENDS_SHM_HEAP_H_
#define DISTWRAP_BACKENDS_SHM_HEAP_H_

#include "hostmem/segment.h"
#include "layout.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace shm_backend {

using dw_hostmem::Segment;

// The parts of this rank's heap that a running operation of one communicator
// uses.
struct Lease {
  struct Range {
    std::atomic<size_t> begin = 0, end = 0;
  };
  Range in, out;
};

class Heap {
 public:
  // Most bytes of address space of a heap. Places are counted in lines, in 32
  // bits.
  static constexpr size_t kMost = size_t{64} << 30;
  // The size of each rank's heap within the limits of this process, when
  // `before` bytes come before the heaps.
  static size_t within_limits(size_t ranks, size_t before);

  Heap() = default;
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  void settle(const Segment& segment, size_t begin, const Header& header,
              int rank);

  // Allocates whole pages, reserved, in this rank's heap.
  int32_t take(size_t bytes, size_t* place, char** data, dw_error* error);
  // Releases pages. DW_FAILED_PRECONDITION while an operation or window uses
  // them.
  int32_t give_back(size_t place, size_t bytes, dw_error* error);

  // The place of `data` in this rank's heap; 0: it lies elsewhere. Memory that
  // was never allocated may have a place too; then nothing is there, or zeros.
  size_t place_of(const void* data, size_t bytes) const {
    const auto at = reinterpret_cast<uintptr_t>(data) -
                    own_.load(std::memory_order_relaxed);
    if (at >= bytes_ || bytes > bytes_ - at) [[likely]]
      return 0;
    return first_ + at;
  }
  // Memory at a place that another rank has published; NULL when it does not
  // exist.
  char* find(int rank, size_t place, size_t bytes);

  // Adds and removes the lease of a communicator or window.
  void add(const Lease* lease);
  void drop(const Lease* lease);

 private:
  // Parts of a rank's heap that are known to exist. Each is a range of pages in
  // one word: the end in the low half, the beginning in the high half.
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
  size_t first_ = 0;  // place where the heap begins
  int rank_ = 0;
  // Address of this rank's heap; while it is not mapped, an address that is far
  // from every real one.
  static constexpr uintptr_t kNowhere = uintptr_t{1} << 62;
  std::atomic<uintptr_t> own_ = kNowhere;
  std::unique_ptr<Other[]> ranks_;
  size_t n_ranks_ = 0;

  std::mutex mutex_;
  size_t taken_ = 0;  // bytes taken from the front
  // released parts in front of that: begin, bytes
  std::map<size_t, size_t> free_;
  std::vector<const Lease*> leases_;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_HEAP_H_
