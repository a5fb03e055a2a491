// This rank's part of a window: memory and signals, and the operations on them
// by this rank or, for other ranks, by the active-message service.
//
// One mutex guards all operations, which makes elements atomic with respect to
// each other; after `close` nothing is written any more.
//
// Threads: any. Ownership: shared by the window and by messages in flight.
// Memory that the caller brings must stay until `close`.
#ifndef DISTWRAP_SRC_ALGO_WINDOWS_PART_H_
#define DISTWRAP_SRC_ALGO_WINDOWS_PART_H_

#include "base/mutex.h"
#include "distwrap/abi/plugin.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace distwrap::algo::windows {

class Part {
 public:
  // Uses `bytes` at `brought`, or allocates zeroed memory when that is NULL.
  // Throws std::bad_alloc.
  Part(uint64_t uid, int rank, int size, void* brought, uint64_t bytes,
       uint64_t signals);
  ~Part();
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  uint64_t uid() const { return uid_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t signals() const { return signals_; }
  char* data() const { return data_; }

  // DW_OK; DW_FAILED_PRECONDITION when the window has ended here;
  // DW_INVALID_ARGUMENT for a range outside of the part.
  int32_t put(uint64_t offset, const void* from, uint64_t bytes);
  int32_t get(uint64_t offset, void* to, uint64_t bytes);
  // Stores the previous elements in `old`, unless it is NULL.
  int32_t reduce(uint64_t offset, const void* operands, void* old,
                 uint64_t count, uint64_t element, dw_reduce_fn kernel);
  // `two` holds the expected and the desired element.
  int32_t compare_swap(uint64_t offset, const void* two, void* old,
                       uint64_t element);
  // Raises slot `index`, or the counter of rank `from` (DW_SIGNAL_PAIR).
  int32_t raise(int from, uint32_t index, uint16_t how, uint64_t value);

  // Waits until the slot fulfils the comparison, the deadline, or the end of
  // the group.
  int32_t wait(uint32_t index, uint16_t compare, uint64_t value,
               Deadline deadline, dw_error* error);
  // Waits for a signal of rank `from` and consumes it.
  int32_t wait_pair(int from, Deadline deadline, dw_error* error);

  // Ends all waits with this error. The first error counts.
  void end_waits(const dw_error& why);
  void close();

  // Notes that another rank has ended the window.
  void peer_closed(int rank) {
    peer_closed_[static_cast<size_t>(rank)].store(true);
  }
  bool is_closed_by(int rank) const {
    return peer_closed_[static_cast<size_t>(rank)].load();
  }

 private:
  int32_t place(uint64_t offset, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <class Holds>
  int32_t wait_until(Deadline deadline, int peer, dw_error* error,
                     const Holds& holds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t uid_;
  const int rank_;
  const int size_;
  const uint64_t bytes_, signals_;
  const bool brought_;
  char* data_ = nullptr;
  const std::unique_ptr<std::atomic<bool>[]> peer_closed_;  // by rank

  base::Mutex mutex_;
  base::CondVar raised_;
  std::vector<uint64_t> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> pairs_ ABSL_GUARDED_BY(mutex_);  // by rank
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  dw_error why_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace distwrap::algo::windows

#endif  // DISTWRAP_SRC_ALGO_WINDOWS_PART_H_
