// The completion cell behind a Work and behind the ABI's dw_work.
//
// Its task is the flight, from submission until the backend has completed it.
// It keeps text for errors by itself, so a Work outlives its communicator.
// Threads: any.
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
#include <vector>

namespace distwrap::comm {

class BackendInstance;

// What a cell tells about its flight.
class WorkOwner {
 public:
  // The deadline of a running operation has passed: fills in who is missing,
  // and ends the backend's work.
  virtual void name_missing(ErrorInfo* cause) = 0;
  virtual void work_expired(const ErrorInfo& cause) = 0;
  // The backend failed the operation: the error as the user will see it.
  virtual ErrorInfo work_failed(uint16_t kind, uint64_t seq, int32_t code,
                                const dw_error& error) = 0;
  // Who can be asked to work at it.
  virtual std::weak_ptr<const BackendInstance> work_engine() = 0;
  // Whether streams can wait for it, and that one does from now on.
  virtual bool work_has_streams() const = 0;
  virtual absl::Status work_wait_stream(dw_work* work,
                                        const Stream& stream) = 0;
  // Keeps the owner as a flight does, to `work_landed`. Of a flight.
  virtual void work_held() = 0;
  // How the operation ended; without a record `record` is 0. Twice for one
  // whose buffers stay in use.
  virtual void work_ended(uint64_t seq, uint64_t record, Reason reason,
                          bool good) = 0;
  // The flight has ended; the cell is not touched by it any more.
  virtual void work_landed() = 0;

 protected:
  ~WorkOwner() = default;
};

class WorkCell final : public Completion, public Watchdog::Watch {
 public:
  // `timeout_error` is what the deadline's end will say.
  WorkCell(WorkOwner& owner, Watchdog& watchdog, const dw_op& op,
           Deadline deadline, ErrorInfo timeout_error, uint64_t record = 0);

  dw_work* abi() { return reinterpret_cast<dw_work*>(this); }
  using Completion::handle;

  // Keeps the factor of a premul_sum, 8 bytes, as long as the flight lasts.
  const void* keep_scale(const void* scale);
  // Begins to watch the deadline; before submission.
  void take_off();
  // Nothing was started, or the operation finished inside submit: ends the
  // flight without a completion.
  void land(WorkState state, ErrorInfo error = {});

  // The slot `complete` of the host table.
  static void complete(dw_work* work, int32_t code, const dw_error* error);

  uint64_t record() const { return record_; }

  bool poll() override;
  uint64_t seq() const override { return seq_; }
  std::vector<TensorView> result() const override { return outputs_; }
  absl::Status expired_wait() const override;
  absl::Status wait_stream(const Stream& stream) override;

 private:
  ~WorkCell() override = default;
  Deadline expired() override;
  void end_flight(WorkState state, ErrorInfo error);
  void leave();

  WorkOwner& owner_;  // until the flight has ended
  Watchdog& watchdog_;
  const std::weak_ptr<const BackendInstance> engine_;
  const bool has_streams_;
  const uint16_t kind_;
  const uint64_t seq_;
  const Deadline deadline_;
  const int64_t started_ns_;
  const ErrorInfo timeout_error_;
  // Likewise, with who was missing then. By `expired` alone, which is over
  // before the flight ends.
  ErrorInfo late_;
  const uint64_t record_;
  const std::vector<TensorView> outputs_;
  ScaleBytes scale_;
  std::atomic<bool> expired_{false};
};

}  // namespace distwrap::comm

#endif  // DISTWRAP_SRC_COMM_WORK_CELL_H_
