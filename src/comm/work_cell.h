// The completion cell behind a Work and behind the ABI's dw_work.
//
// Two sides hold it: handles of the user, and the flight, from submission until
// the backend has completed it. It keeps text for errors by itself, so a Work
// outlives its communicator.
// Threads: any.
#ifndef DISTWRAP_SRC_COMM_WORK_CELL_H_
#define DISTWRAP_SRC_COMM_WORK_CELL_H_

#include "base/mutex.h"
#include "comm/watchdog.h"
#include "distwrap/abi/plugin.h"
#include "distwrap/status.h"
#include "distwrap/work.h"

#include <atomic>
#include <cstdint>

namespace distwrap::comm {

// What a cell tells about its flight.
class WorkOwner {
 public:
  // The deadline of a running operation has passed; ends the backend's work.
  virtual void work_expired(const ErrorInfo& cause) = 0;
  // The backend failed the operation: the error as the user will see it.
  virtual ErrorInfo work_failed(uint16_t kind, uint64_t seq, int32_t code,
                                const dw_error& error) = 0;
  // The flight has ended; the cell is not touched by it any more.
  virtual void work_landed() = 0;

 protected:
  ~WorkOwner() = default;
};

class WorkCell final : public Watchdog::Watch {
 public:
  // One reference for the handle, one for the flight.
  // `timeout_error` is what the deadline's end will say.
  WorkCell(WorkOwner& owner, Watchdog& watchdog, const dw_op& op,
           Deadline deadline, ErrorInfo timeout_error);

  dw_work* abi() { return reinterpret_cast<dw_work*>(this); }
  Work handle() { return Work(this); }

  // Begins to watch the deadline; before submission.
  void take_off();
  // Nothing was started, or the operation finished inside submit: ends the
  // flight without a completion.
  void land(WorkState state, ErrorInfo error = {});

  // The slot `complete` of the host table.
  static void complete(dw_work* work, int32_t code, const dw_error* error);

  WorkState state() const { return state_.load(std::memory_order_acquire); }
  absl::Status status() const;
  absl::Status wait(absl::Duration timeout);
  uint64_t seq() const { return seq_; }

  void acquire() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();

 private:
  ~WorkCell() override = default;
  Deadline expired() override;
  absl::Status expired_wait() const;
  // First end wins.
  void end(WorkState state, ErrorInfo error);
  void leave();

  WorkOwner& owner_;  // until the flight has ended
  Watchdog& watchdog_;
  const uint16_t kind_;
  const uint64_t seq_;
  const Deadline deadline_;
  const int64_t started_ns_;
  const ErrorInfo timeout_error_;
  std::atomic<int> references_{2};
  std::atomic<bool> expired_{false};
  std::atomic<WorkState> state_{WorkState::kRunning};
  mutable base::Mutex mutex_;
  base::CondVar ended_;
  ErrorInfo error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_WORK_CELL_H_
