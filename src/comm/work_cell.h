// The completion cell behind a Work and behind the ABI's dw_work.
//
// The cell is in flight from its submission until the backend has completed it,
// and keeps its owner so long. Afterwards it needs no other object: a Work
// outlives its communicator. Threads: any.
#ifndef DISTWRAP_SRC_COMM_WORK_CELL_H_
#define DISTWRAP_SRC_COMM_WORK_CELL_H_

#include "comm/completion.h"
#include "comm/prepared_op.h"
#include "comm/watchdog.h"
#include "distwrap/abi/plugin.h"
#include "distwrap/status.h"
#include "distwrap/types.h"
#include "distwrap/work.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace distwrap::comm {

class BackendInstance;
class WorkCell;

// The owner of an operation: a communicator or a window.
class WorkOwner {
 public:
  // The error of an operation whose deadline has passed, without who is
  // missing.
  virtual ErrorInfo work_timeout(const dw_op& op) const = 0;
  // The deadline of a running operation has passed: fills in who is missing,
  // and ends the backend's work.
  virtual void name_missing(ErrorInfo* cause) = 0;
  virtual void work_expired(const ErrorInfo& cause) = 0;
  // The device has begun the operation.
  virtual void work_on_device(const dw_op& op, const WorkCell& cell) = 0;
  // Why the device has not begun an operation: "queued behind ...".
  virtual std::string why_queued(const dw_op& op) = 0;
  // The backend failed the operation: the error as the user will see it. The
  // arrays that `op` points to may be gone.
  virtual ErrorInfo work_failed(const dw_op& op, int32_t code,
                                const dw_error& error) = 0;
  // The backend instance whose `progress` has to be called for the operation.
  virtual std::shared_ptr<const BackendInstance> work_engine() = 0;
  // A stream waits for the operation from now on.
  virtual absl::Status work_wait_stream(dw_work* work,
                                        const Stream& stream) = 0;
  // This thread waits for a collective, which the backend may run here.
  virtual void run_queued(uint64_t seq) = 0;
  // Cancels an operation that the backend does not have yet. False: the backend
  // has it.
  virtual bool work_cancel(const dw_op& op, const WorkCell& cell) = 0;
  // Keeps the owner until `work_finished`.
  virtual void work_begun() = 0;
  // How the operation ended. Called twice for an operation whose buffers stay
  // in use.
  virtual void work_ended(const WorkCell& cell, Reason reason, bool good) = 0;
  // The operation is no longer in flight; the cell does not use the owner any
  // more.
  virtual void work_finished() = 0;

 protected:
  ~WorkOwner() = default;
};

class WorkCell final : public Completion, public Watchdog::Watch {
 public:
  // `size` is that of the group.
  WorkCell(WorkOwner& owner, Watchdog& watchdog, const BackendInstance& backend,
           const dw_op& op, int size, int64_t now_ns, Deadline deadline,
           absl::string_view label, uint64_t record);

  // Cells are used again, so that an operation needs no memory: the thread that
  // frees a cell is seldom the one that needs the next.
  static void* operator new(size_t bytes);
  static void operator delete(void* memory);

  dw_work* abi() { return reinterpret_cast<dw_work*>(this); }
  using Completion::handle;

  // Keeps the factor of a premul_sum, 8 bytes, while the operation is in
  // flight.
  const void* keep_scale(const void* scale);
  // Begins to watch the deadline; before submission.
  void arm();
  // The backend will tell when the device begins it; before submission.
  void await_begin() {
    awaits_begin_ = true;
    set_queued(true);
  }
  // The backend has no resources for it yet.
  void queue() {
    in_queue_.store(true, std::memory_order_release);
    set_queued(true);
  }
  // The backend has the operation now; it may have ended meanwhile.
  void unqueue() {
    in_queue_.store(false, std::memory_order_release);
    if (!awaits_begin_) set_queued(false);
  }
  // Nothing was started, or the operation finished inside submit: the cell is
  // no longer in flight, and no completion comes.
  void finish(WorkState state, ErrorInfo error = {});

  // The slots `complete` and `begun` of the host table.
  static void complete(dw_work* work, int32_t code, const dw_error* error);
  static void begun(dw_work* work);

  // The number of its record; 0: there is none.
  uint64_t record() const { return record_; }
  bool awaits_begin() const { return awaits_begin_; }

  bool poll() override;
  void run_here(Deadline deadline) override;
  uint64_t seq() const override { return op_.seq; }
  std::vector<TensorView> result() const override;
  absl::Status expired_wait() override;
  absl::Status wait_stream(const Stream& stream) override;
  bool can_cancel() const override {
    return state() == WorkState::kQueued &&
           in_queue_.load(std::memory_order_acquire);
  }
  absl::Status cancel() override;

 private:
  ~WorkCell() override = default;
  Deadline expired() override;
  absl::Duration elapsed() const;
  void begin();
  // Adds to an error what the device was doing with the operation.
  void describe_on_device(ErrorInfo* late) const;
  void completed(int32_t code, const dw_error* error);
  void end_well();
  void end_as(WorkState state, ErrorInfo error);
  void leave();

  WorkOwner& owner_;  // while in flight
  Watchdog& watchdog_;
  const dw_op op_;  // the arrays it points to may be gone
  const Deadline deadline_;
  const int64_t started_ns_;
  const std::string label_;
  // Written only by `expired`, which has returned before the cell is finished.
  std::optional<ErrorInfo> late_;
  const uint64_t record_;
  const Device device_;
  const bool has_streams_;
  const std::vector<TensorView> outputs_;  // by rank, of a list
  ScaleBytes scale_;
  std::atomic<bool> expired_{false};
  bool awaits_begin_ = false;
  std::atomic<bool> in_queue_{false};  // the host's, for lack of resources
  std::atomic<int64_t> begun_ns_{0};   // 0: the device has not begun it
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_WORK_CELL_H_
