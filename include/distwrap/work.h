// A started operation.
//
// Threads: any method from any thread.
// Ownership: a counted handle; copies name the same operation. It may be
// dropped at any time, and outlives communicator and session: the operation
// goes on, its buffers must live until it is done.
//
//   auto work = distwrap::all_reduce(x, ReduceOp::kSum, {.async = true});
//   ...
//   absl::Status status = work->wait();
#ifndef DISTWRAP_WORK_H_
#define DISTWRAP_WORK_H_

#include "distwrap/deadline.h"
#include "distwrap/export.h"
#include "distwrap/tensor_view.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace distwrap {

struct Stream;

namespace comm {
class Completion;
}

// kQueued: not handed to the backend yet. (None is, today: an operation for
// which the backend has no room is submitted again inside its call.)
enum class WorkState { kQueued, kRunning, kDone, kFailed, kTimedOut, kAborted };

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

  // One that ends when all of them have, with the error of the first in the
  // list that failed. Of none: done.
  static Work all(std::vector<Work> works);

  // Blocks until the operation has ended; its error every time it is called on
  // a failed one. kWaitExpired when the time has passed first: the operation
  // goes on. A duration counts from entry.
  absl::Status wait(absl::Duration timeout = absl::InfiniteDuration()) const;
  absl::Status wait(Deadline deadline) const;
  // Makes a stream wait for the end, in place of the host; returns at once.
  // kUnsupported where the backend has no streams, as on host memory.
  absl::Status wait_stream(const Stream& stream) const;
  // Whether it has ended, well or not; asks the backend now.
  bool test() const;
  // As it was last heard of.
  WorkState state() const;
  // OK while running and when done, else the error.
  absl::Status status() const;
  // The outputs of an asynchronous operation, flat; one for each part of a
  // list. Valid as long as a handle. None for a call that was synchronous: its
  // caller has them.
  std::vector<TensorView> result() const;
  // Sequence number among the group's collectives; 0 for a done or
  // point-to-point operation, and for several.
  uint64_t seq() const;

  // Calls `f` once with status(), off all locks, in order of registration: in
  // this thread when the operation has ended already, else in a thread of the
  // session that does nothing else. It may call anything of distwrap; one that
  // takes long makes the others late. The session's end waits for it.
  void on_done(std::function<void(const absl::Status&)> f) const;
  // A descriptor that is readable once the operation has ended: for poll, not
  // to be read or closed. Closed with the last handle. kResourceLimit when the
  // process has no more of them.
  absl::StatusOr<int> event_fd() const;
  // Takes back an operation that is still kQueued; else kAlreadySubmitted, and
  // it goes on.
  absl::Status cancel() const;

 private:
  friend class comm::Completion;
  explicit Work(comm::Completion* cell) : cell_(cell) {}  // takes a reference
  void release();

  comm::Completion* cell_ = nullptr;  // null: done
};

// Blocks until one of them has ended, and says which: the first in the list
// that has. kWaitExpired when none has by the deadline, kInvalidArgument for an
// empty list.
DISTWRAP_EXPORT absl::StatusOr<size_t> wait_any(
    absl::Span<const Work> works, Deadline deadline = Deadline::never());
// Blocks until all have ended; the error of the first in the list that failed.
// When some are still running at the deadline: the error of one that has
// failed, else kWaitExpired.
DISTWRAP_EXPORT absl::Status wait_all(absl::Span<const Work> works,
                                      Deadline deadline = Deadline::never());

}  // namespace distwrap

#endif  // DISTWRAP_WORK_H_
