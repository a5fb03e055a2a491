// Asynchronous operations for which the backend had no resources: they wait in
// the queue of the backend instance, in order with the later ones of their
// communicator.
#include "base/error.h"
#include "base/exceptions.h"
#include "comm/communicator.h"
#include "comm/op_shape.h"
#include "sdk/guard.h"

#include <algorithm>
#include <new>
#include <sched.h>
#include <utility>
#include <vector>

namespace distwrap::comm {

// Enters all communicators of a set, beside other calls; or none.
class BackendCommunicator::QueueEntry {
 public:
  QueueEntry() = default;
  ~QueueEntry() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (BackendCommunicator* const one : entered_) {
      one->lock_.submit_mutex().unlock();
      one->lock_.leave();
    }
  }
  QueueEntry(const QueueEntry&) = delete;
  QueueEntry& operator=(const QueueEntry&) = delete;

  // False when another thread is in the way.
  bool enter(const SubmitQueue::Set& set) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    entered_.reserve(set.size());
    for (const QueuedOp& op : set) {
      BackendCommunicator* const one = op.communicator;
      if (std::find(entered_.begin(), entered_.end(), one) != entered_.end())
        continue;
      const bool collective = op_shape(op.prepared->op.kind).collective();
      if (one->lock_.enter_beside(collective, Deadline::at_ns(0)) ==
          BiasedLock::Place::kNone)
        return false;
      if (!one->lock_.submit_mutex().try_lock()) {
        one->lock_.leave();
        return false;
      }
      entered_.push_back(one);
    }
    return true;
  }

 private:
  std::vector<BackendCommunicator*> entered_;
};

void BackendCommunicator::enqueue(SubmitQueue::Set set) {
  BackendInstance& backend = *set.front().communicator->backend_;
  for (const QueuedOp& op : set) {
    op.cell->queue();
    backend.begin_retrying();
    BackendCommunicator& owner = *op.communicator;
    if (owner.queued_.fetch_add(1, std::memory_order_acq_rel) == 0)
      owner.lock_.watch(true);
  }
  try {
    backend.queue().add(std::move(set), submit_queued);
  } catch (...) {
    for (const QueuedOp& op : set) op.communicator->leave_queue();
    throw;
  }
}

// Returns DW_AGAIN also while another thread is inside one of the
// communicators.
int32_t BackendCommunicator::submit_set(SubmitQueue::Set& set,
                                        dw_error* error) {
  QueueEntry inside;
  if (!inside.enter(set)) return DW_AGAIN;
  const BackendCommunicator& first = *set.front().communicator;
  if (set.size() == 1)
    return first.any_.submit(first.any_.comm, &set.front().prepared->op,
                             set.front().cell->abi(), error);
  std::vector<dw_group_item> group;
  for (const QueuedOp& op : set)
    group.push_back({op.communicator->comm_, &op.prepared->op, op.cell->abi()});
  return first.backend_->submit_group(group, error);
}

int32_t BackendCommunicator::submit_queued(SubmitQueue::Set& set) noexcept {
  dw_error error{};
  error.peer = -1;
  error.reason = DW_REASON_ABORTED;
  int32_t code = DW_ABORTED;
  if (std::all_of(set.begin(), set.end(), [](const QueuedOp& op) {
        return op.communicator->life_.load(std::memory_order_acquire) ==
               Life::kOpen;
      })) {
    error.reason = DW_REASON_NONE;
    try {
      code = submit_set(set, &error);
    } catch (...) {
      code = dw_sdk::error_of_exception("a queued operation", &error);
    }
    if (code == DW_AGAIN) return code;
  }
  for (const QueuedOp& op : set) op.communicator->leave_queue();
  for (const QueuedOp& op : set)
    op.communicator->conclude_queued(op, code, error);
  return code;
}

void BackendCommunicator::leave_queue() {
  backend_->end_retrying();
  if (queued_.fetch_sub(1, std::memory_order_acq_rel) == 1) lock_.watch(false);
}

void BackendCommunicator::conclude_queued(const QueuedOp& queued, int32_t code,
                                          const dw_error& error) {
  left_host(*queued.cell);
  if (code == DW_OK) return queued.cell->unqueue();
  if (code == DW_DONE) return queued.cell->finish(WorkState::kDone);
  // Later collectives already have their numbers, so a missing one ends the
  // group.
  const dw_op& op = queued.prepared->op;
  if (is_refusal(code) && op.seq != 0) {
    try {
      abort(located(backend_error(code, error, backend_->name()), op.kind,
                    op.seq));
    } catch (const std::bad_alloc&) {
      break_by(base::no_memory_error());
    }
  }
  WorkCell::complete(queued.cell->abi(), code, &error);
}

absl::Status BackendCommunicator::wait_for_queue(CallContext& context,
                                                 int64_t timeout_ns) {
  const Deadline deadline =
      context.deadline_ns != 0 ? Deadline::at_ns(context.deadline_ns)
      : timeout_ns == 0        ? Deadline::never()
                               : Deadline::after(absl::Nanoseconds(timeout_ns));
  if (!deadline.is_never()) context.deadline_ns = deadline.ns();
  // This call does nothing yet, so it hinders nobody.
  CallGuard::say(context.slot, this, CallGuard::Doing::kBeside);
  while (has_queued()) {
    backend_->queue().try_all();
    if (!has_queued()) break;
    if (absl::Status open = check_open(context.kind); !open.ok()) return open;
    if (deadline.passed()) return refuse_place(context.kind, timeout_ns);
    backend_->progress();
    sched_yield();
  }
  return absl::OkStatus();
}

bool BackendCommunicator::work_cancel(const dw_op& op, const WorkCell& cell) {
  {
    base::MutexLock lock(lock_.submit_mutex());
    // A collective with a later one behind it keeps its number.
    if (op.seq != 0 && seq_.load(std::memory_order_relaxed) != op.seq)
      return false;
    if (!backend_->queue().remove(&cell)) return false;
    unstamp(op);
  }
  leave_queue();
  return true;
}

}  // namespace distwrap::comm
