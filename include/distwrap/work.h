// A started operation.
//
// Threads: any method from any thread.
// Ownership: a counted handle; copies name the same operation. It may be
// dropped: the operation goes on, its buffers must live until it is done.
//
//   auto work = distwrap::all_reduce(x, ReduceOp::kSum, {.async = true});
//   ...
//   absl::Status status = work->wait();
#ifndef DISTWRAP_WORK_H_
#define DISTWRAP_WORK_H_

#include "distwrap/export.h"

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <utility>

namespace distwrap {

namespace comm {
class WorkCell;
}

enum class WorkState { kRunning, kDone, kFailed, kTimedOut, kAborted };

class DISTWRAP_EXPORT Work {
 public:
  // An operation that is done.
  Work() = default;
  Work(const Work& other);
  Work& operator=(const Work& other);
  Work(Work&& other) noexcept : cell_(std::exchange(other.cell_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    std::swap(cell_, other.cell_);
    return *this;
  }
  ~Work() {
    if (cell_ != nullptr) release();
  }

  // Blocks until the operation has ended; its error every time it is called on
  // a failed one. kWaitExpired when `timeout` (from entry) passes first: the
  // operation goes on.
  absl::Status wait(absl::Duration timeout = absl::InfiniteDuration()) const;
  // Whether it has ended, well or not.
  bool test() const { return state() != WorkState::kRunning; }
  WorkState state() const;
  // OK while running and when done, else the error.
  absl::Status status() const;
  // Sequence number among the group's collectives; 0 for a done or
  // point-to-point operation.
  uint64_t seq() const;

 private:
  friend class comm::WorkCell;
  explicit Work(comm::WorkCell* cell) : cell_(cell) {}  // takes a reference
  void release();

  comm::WorkCell* cell_ = nullptr;  // null: done
};

}  // namespace distwrap

#endif  // DISTWRAP_WORK_H_
