#include "comm/work_cell.h"

#include "base/error.h"
#include "base/exceptions.h"
#include "comm/backend_instance.h"
#include "comm/on_device.h"
#include "comm/op_build.h"
#include "distwrap/abi/note.h"

#include <absl/strings/str_cat.h>

#include <new>
#include <string.h>
#include <utility>

namespace distwrap::comm {
namespace {

// How long a backend may take to let go of the buffers after an abort, before
// the waiters are told without it.
constexpr absl::Duration kQuiesce = absl::Milliseconds(50);

// Sanitizers have to notice when a cell is used that was freed.
constexpr int kMostSpare = DW_SANITIZER == DW_SANITIZER_NONE ? 256 : 0;

// Memory of cells that have been freed. A thread that finds another one inside
// does without it, so that no thread waits, also not in the child of a fork.
class SpareCells {
 public:
  void* take(size_t bytes) {
    if (!busy_.test_and_set(std::memory_order_acquire)) {
      Spare* const spare = first_;
      if (spare != nullptr) {
        first_ = spare->next;
        --count_;
      }
      busy_.clear(std::memory_order_release);
      if (spare != nullptr) return spare;
    }
    return ::operator new(bytes);
  }
  void put(void* memory) {
    if (!busy_.test_and_set(std::memory_order_acquire)) {
      const bool fits = count_ < kMostSpare;
      if (fits) {
        first_ = new (memory) Spare{first_};
        ++count_;
      }
      busy_.clear(std::memory_order_release);
      if (fits) return;
    }
    ::operator delete(memory);
  }

 private:
  struct Spare {
    Spare* next;
  };
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  Spare* first_ = nullptr;
  int count_ = 0;
};

SpareCells& spare_cells() {
  static SpareCells* const kCells = new SpareCells;
  return *kCells;
}

}  // namespace

WorkCell::WorkCell(WorkOwner& owner, Watchdog& watchdog,
                   const BackendInstance& backend, const dw_op& op, int size,
                   int64_t now_ns, Deadline deadline, absl::string_view label,
                   uint64_t record)
    : owner_(owner),
      watchdog_(watchdog),
      op_(op),
      deadline_(deadline),
      started_ns_(now_ns),
      label_(label),
      record_(record),
      device_(backend.device()),
      has_streams_(backend.has_streams()),
      outputs_(op.out.parts == nullptr ? std::vector<TensorView>()
                                       : views_of(op.out, size, device_)) {}

void* WorkCell::operator new(size_t bytes) { return spare_cells().take(bytes); }

void WorkCell::operator delete(void* memory) { spare_cells().put(memory); }

std::vector<TensorView> WorkCell::result() const {
  return op_.out.parts == nullptr ? views_of(op_.out, 0, device_) : outputs_;
}

const void* WorkCell::keep_scale(const void* scale) {
  memcpy(scale_.bytes, scale, sizeof scale_.bytes);
  return scale_.bytes;
}

void WorkCell::arm() {
  if (!deadline_.is_never()) watchdog_.add(*this, deadline_);
}

void WorkCell::finish(WorkState state, ErrorInfo error) {
  watchdog_.remove(*this);
  end_as(state, std::move(error));
  leave();
}

absl::Duration WorkCell::elapsed() const {
  return absl::Nanoseconds(Deadline::now_ns() - started_ns_);
}

void WorkCell::complete(dw_work* work, int32_t code, const dw_error* error) {
  auto* cell = reinterpret_cast<WorkCell*>(work);
  cell->watchdog_.remove(*cell);
  try {
    cell->completed(code, error);
  } catch (const std::bad_alloc&) {
    cell->end_as(WorkState::kFailed, {.reason = Reason::kOutOfMemory});
  }
  cell->leave();
}

void WorkCell::begun(dw_work* work) {
  reinterpret_cast<WorkCell*>(work)->begin();
}

void WorkCell::begin() {
  begun_ns_.store(Deadline::now_ns(), std::memory_order_release);
  set_queued(false);
  owner_.work_on_device(op_, *this);
}

void WorkCell::completed(int32_t code, const dw_error* error) {
  if (code == DW_OK) {
    // A short operation has ended before anybody saw it begin.
    if (awaits_begin_ && begun_ns_.load(std::memory_order_relaxed) == 0)
      begin();
    end_well();
  } else if (expired_.load(std::memory_order_acquire)) {
    // The abort that followed the deadline failed it; the deadline is the
    // cause.
    ErrorInfo info = *late_;
    info.elapsed = elapsed();
    end_as(WorkState::kTimedOut, std::move(info));
  } else {
    ErrorInfo info =
        owner_.work_failed(op_, code, error != nullptr ? *error : dw_error{});
    info.elapsed = elapsed();
    if (info.reason == Reason::kTimedOut)
      info.deadline = absl::Nanoseconds(op_.timeout_ns);
    const WorkState state =
        info.reason == Reason::kAborted    ? WorkState::kAborted
        : info.reason == Reason::kTimedOut ? WorkState::kTimedOut
                                           : WorkState::kFailed;
    end_as(state, std::move(info));
  }
}

Deadline WorkCell::expired() {
  if (!expired_.load(std::memory_order_relaxed)) {
    late_ = owner_.work_timeout(op_);
    late_->elapsed = elapsed();
    owner_.name_missing(&*late_);
    describe_on_device(&*late_);
    expired_.store(true, std::memory_order_release);
    owner_.work_expired(*late_);
    return Deadline::after(kQuiesce);
  }
  ErrorInfo info = *late_;
  info.elapsed = elapsed();
  absl::StrAppend(&info.what,
                  "; its buffers are in use until the group is destroyed");
  end_as(WorkState::kTimedOut, std::move(info));
  return Deadline::never();
}

void WorkCell::describe_on_device(ErrorInfo* late) const {
  if (!awaits_begin_ || in_queue_.load(std::memory_order_acquire)) return;
  const int64_t since_ns = begun_ns_.load(std::memory_order_acquire);
  if (since_ns != 0) {
    absl::StrAppend(&late->what, "; on the device it has been running for ",
                    running_time(since_ns));
    return;
  }
  late->what = "the device has not begun the operation in time";
  late->cause = absl::StrCat("it is ", owner_.why_queued(op_));
}

// The owner is told first: a thread that waits for the work may end the
// program.
void WorkCell::end_well() {
  owner_.work_ended(*this, Reason::kNone, true);
  end((op_.flags & DW_FLAG_CAPTURE) != 0 ? WorkState::kCaptured
                                         : WorkState::kDone,
      absl::OkStatus(), watchdog_.callbacks());
}

void WorkCell::end_as(WorkState state, ErrorInfo error) {
  if (state == WorkState::kDone) return end_well();
  owner_.work_ended(*this, error.reason, false);
  absl::Status status = base::guarded("", [&] {
    error.label = label_;
    return base::make_error(error);
  });
  end(state, std::move(status), watchdog_.callbacks());
}

void WorkCell::leave() {
  owner_.work_finished();
  release_task();
}

bool WorkCell::poll() {
  if (is_of_parent()) return false;
  std::shared_ptr<const BackendInstance> engine;
  if (!while_running([&] { engine = owner_.work_engine(); })) return false;
  const bool again = engine->progress();
  if (!can_cancel()) return again;
  engine->queue().try_all();
  return true;
}

void WorkCell::run_here(Deadline deadline) {
  // Nobody may be held longer than he wants to wait.
  const bool to_the_end =
      deadline.is_never() ||
      (op_.deadline_ns != 0 && op_.deadline_ns <= deadline.ns());
  if (op_.seq == 0 || !to_the_end ||
      !while_running([this] { owner_.work_begun(); }))
    return;
  owner_.run_queued(op_.seq);
  owner_.work_finished();
}

absl::Status WorkCell::cancel() {
  if (!can_cancel() || !while_running([this] { owner_.work_begun(); }))
    return Completion::cancel();
  const bool taken = owner_.work_cancel(op_, *this);
  owner_.work_finished();
  if (!taken) return Completion::cancel();
  finish(WorkState::kAborted,
         {.reason = Reason::kAborted, .what = "the operation was cancelled"});
  return absl::OkStatus();
}

absl::Status WorkCell::wait_stream(const Stream& stream) {
  if (!has_streams_) return Completion::wait_stream(stream);
  // The owner keeps the backend's communicator until the work ends.
  if (!while_running([this] { owner_.work_begun(); })) return status();
  absl::Status told = owner_.work_wait_stream(abi(), stream);
  owner_.work_finished();
  return told;
}

absl::Status WorkCell::expired_wait() {
  ErrorInfo info;
  if (!while_running([&] { info = owner_.work_timeout(op_); })) return status();
  info.reason = Reason::kWaitExpired;
  info.what = "the operation is still running";
  info.elapsed = elapsed();
  info.label = label_;
  info.next_step = "wait again, or to the operation's own limit";
  return base::make_error(info);
}

}  // namespace distwrap::comm
