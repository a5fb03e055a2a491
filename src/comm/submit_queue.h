// Asynchronous operations for which the backend had no resources (DW_AGAIN):
// submitted again, in order, by whichever thread makes progress.
//
// Threads: any. Ownership: of its backend instance; the work cells of what
// waits here keep their communicators.
#ifndef DISTWRAP_SRC_COMM_SUBMIT_QUEUE_H_
#define DISTWRAP_SRC_COMM_SUBMIT_QUEUE_H_

#include "base/mutex.h"
#include "comm/prepared_op.h"
#include "distwrap/abi/plugin.h"

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <vector>

namespace distwrap::comm {

class BackendCommunicator;
class WorkCell;

// One operation, with all that the ABI borrows from its caller.
struct QueuedOp {
  BackendCommunicator* communicator;
  WorkCell* cell;
  std::unique_ptr<PreparedOp> prepared;
};

class SubmitQueue {
 public:
  // Operations that start together.
  using Set = std::vector<QueuedOp>;
  // Submits a set. DW_AGAIN, or the result has been dealt with.
  using Submit = int32_t (*)(Set& set) noexcept;

  // If it throws for lack of memory, `set` is unchanged.
  void add(Set&& set, Submit submit);
  // Submits all sets that can start, unless another thread is doing so. Sets of
  // one communicator keep their order; sets of other communicators do not wait
  // for them.
  void try_all();
  // Removes an operation from its set; the others of the set still start
  // together. False: it does not wait here.
  bool remove(const WorkCell* cell);
  bool empty() const { return size_.load(std::memory_order_acquire) == 0; }

 private:
  struct Entry {
    Set set;
    Submit submit;
  };

  base::Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::atomic<size_t> size_{0};
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_SUBMIT_QUEUE_H_
