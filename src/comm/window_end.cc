// The end of a window, and its operations that complete later.
#include "base/error.h"
#include "comm/op_build.h"
#include "comm/window.h"

#include <utility>

namespace distwrap::comm {

bool Window::shut(Deadline deadline) {
  {
    base::MutexLock lock(mutex_);
    if (!closed_.exchange(true, std::memory_order_seq_cst)) owner_ended_ = true;
  }
  return CallGuard::wait_until_left(this, deadline);
}

absl::StatusOr<bool> Window::close(Deadline deadline) {
  constexpr char kCall[] = "window_destroy";
  {
    base::MutexLock lock(mutex_);
    if (closing_ || owner_ended_) return false;
    closing_ = true;
    closed_.store(true, std::memory_order_seq_cst);
  }
  bool idle = CallGuard::wait_until_left(this, deadline);
  {
    base::MutexLock lock(mutex_);
    while (in_flight_ > 0 && changed_.wait_until(mutex_, deadline)) {
    }
    idle = idle && in_flight_ == 0;
    if (owner_ended_ || ended_) return false;
  }
  if (!idle)
    return base::make_error(located(
        {.reason = Reason::kTimedOut,
         .what = "calls of other threads on the window did not end in time",
         .setting = base::kCallLimit,
         .next_step = "let waits end, or give them shorter timeouts"},
        kCall));
  const BackendCommunicator::Reference kept(&owner_);
  if (kept.comm() == nullptr) return false;
  if (owner_.life_.load(std::memory_order_seq_cst) !=
      BackendCommunicator::Life::kOpen)
    return owner_.refuse_broken(kCall);
  dw_op op;
  op_build::clear(&op);
  op.struct_size = sizeof op;
  op.kind = DW_OP_FLUSH;
  op.flags = DW_FLAG_CALLER_WAITS;
  op.peer = -1;
  op.stream.device_type = DW_DEVICE_CPU;
  op.window = waiting_window_;
  op.deadline_ns = deadline.is_never() ? 0 : deadline.ns();
  dw_error error;
  BackendCommunicator::clear(&error);
  int32_t code = waiting_.submit(waiting_.comm, &op, nullptr, &error);
  if (code == DW_AGAIN)
    code = owner_.submit_again(waiting_, op, nullptr, &error);
  if (code == DW_DONE) return true;
  // Without flushes a put has arrived when it has ended.
  if (code == DW_UNIMPLEMENTED &&
      !owner_.capabilities_.supports_kind(DW_OP_FLUSH))
    return true;
  return owner_.conclude(op, code, error, *this, {});
}

absl::Status Window::end(Deadline deadline) {
  // Keeps itself: the owner may hold the last handle.
  const std::shared_ptr<Window> self = shared_from_this();
  {
    base::MutexLock lock(mutex_);
    if (std::exchange(ended_, true)) return absl::OkStatus();
  }
  dw_error error = {};
  error.peer = -1;
  int32_t code;
  {
    base::MutexLock lock(owner_.backend_->calls());
    code = owner_.backend_->api().window_destroy(
        window_, deadline.is_never() ? 0 : deadline.ns(), &error);
  }
  owner_.forget(this);
  if (code == DW_OK) return absl::OkStatus();
  ErrorInfo info = located(backend_error(code, error, owner_.backend_->name()),
                           "window_destroy");
  if (error.peer >= 0 && error.peer < size()) info.ranks = {error.peer};
  info.next_step = "keep the memory until the group has ended";
  return base::make_error(info);
}

void Window::name_missing(ErrorInfo* info) { owner_.name_missing(info); }
void Window::work_expired(const ErrorInfo& cause) {
  owner_.work_expired(cause);
}
std::shared_ptr<const BackendInstance> Window::work_engine() {
  return owner_.work_engine();
}
absl::Status Window::work_wait_stream(dw_work* work, const Stream& stream) {
  return owner_.work_wait_stream(work, stream);
}
bool Window::work_cancel(const dw_op& op, const WorkCell& cell) {
  return owner_.work_cancel(op, cell);
}
void Window::work_begun() {
  owner_.work_begun();
  base::MutexLock lock(mutex_);
  ++in_flight_;
}
void Window::work_on_device(const dw_op& op, const WorkCell& cell) {
  owner_.work_on_device(op, cell);
}
std::string Window::why_queued(const dw_op& op) {
  return owner_.why_queued(op);
}
void Window::work_ended(const WorkCell& cell, Reason reason, bool good) {
  owner_.work_ended(cell, reason, good);
}
void Window::work_finished() {
  BackendCommunicator& owner = owner_;
  {
    base::MutexLock lock(mutex_);
    --in_flight_;
    changed_.notify_all();
  }
  owner.work_finished();
}

}  // namespace distwrap::comm
