// A started operation.
//
// Threads: any method from any thread.
// Ownership: a counted handle; copies name the same operation. A handle may be
// dropped at any time and may outlive communicator and session. The operation
// goes on without handles, and its buffers must live until it has ended.
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

// The states of an operation. kQueued means that the backend had no resources
// for it yet, and whichever thread makes progress submits it again; or, on a
// device, that work before it in its stream has not ended. kCaptured means that
// the call is a part of a graph: it has ended well for the host, and has no end
// and no deadline of its own (docs/graphs.md).
enum class WorkState {
  kQueued,
  kRunning,
  kDone,
  kFailed,
  kTimedOut,
  kAborted,
  kCaptured,
};

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

  // One Work for several: it ends when all of them have ended, with the error
  // of the first in the list that failed, else captured if one of them is. An
  // empty list gives a done Work.
  static Work all(std::vector<Work> works);

  // Blocks until the operation has ended and returns its status; a failed
  // operation returns its error every time. kWaitExpired when the timeout,
  // counted from the call, comes first; the operation goes on.
  absl::Status wait(absl::Duration timeout = absl::InfiniteDuration()) const;
  absl::Status wait(Deadline deadline) const;
  // Makes a stream, instead of the host, wait for the end, and returns at once.
  // kUnsupported where the backend has no streams, as on host memory.
  absl::Status wait_stream(const Stream& stream) const;
  // Asks the backend now whether the operation has ended, well or not.
  bool test() const;
  // The last known state, without asking the backend.
  WorkState state() const;
  // OK while the operation runs and when it is done; otherwise its error.
  absl::Status status() const;
  // The outputs of an asynchronous operation as flat views, one for each part
  // of a list. Valid as long as a handle exists. Empty for a synchronous call,
  // whose caller has the outputs.
  std::vector<TensorView> result() const;
  // The sequence number among the group's collectives; 0 for a done operation,
  // for a message, and for a Work of several operations.
  uint64_t seq() const;

  // Calls `f` once with status(), without holding a lock and in order of
  // registration: in this thread when the operation has already ended,
  // otherwise in a thread of the session that does nothing else. `f` may call
  // everything in distwrap. A slow `f` delays the following callbacks, and the
  // end of the session waits for it.
  void on_done(std::function<void(const absl::Status&)> f) const;
  // A file descriptor for poll that becomes readable when the operation has
  // ended. The caller must not read or close it; the last handle closes it.
  // kResourceLimit when the process has no file descriptors left.
  absl::StatusOr<int> event_fd() const;
  // Takes back a queued operation that the backend does not have yet: it ends
  // as kAborted. An item of a batch can be taken back alone; the Work of a
  // batch takes back all items, if the backend has none of them yet. Otherwise
  // kAlreadySubmitted, and the operation goes on. A collective cannot be taken
  // back while the group has made another one after it.
  absl::Status cancel() const;

 private:
  friend class comm::Completion;
  explicit Work(comm::Completion* cell) : cell_(cell) {}  // takes a reference
  void release();

  comm::Completion* cell_ = nullptr;  // null: done
};

// Blocks until one of the operations has ended and returns its index, the
// lowest when several have. kWaitExpired when none has ended by the deadline,
// kInvalidArgument for an empty list.
DISTWRAP_EXPORT absl::StatusOr<size_t> wait_any(
    absl::Span<const Work> works, Deadline deadline = Deadline::never());
// Blocks until all operations have ended and returns the error of the first in
// the list that failed. If some still run at the deadline, the result is the
// error of a failed one, or else kWaitExpired.
DISTWRAP_EXPORT absl::Status wait_all(absl::Span<const Work> works,
                                      Deadline deadline = Deadline::never());

}  // namespace distwrap

#endif  // DISTWRAP_WORK_H_
