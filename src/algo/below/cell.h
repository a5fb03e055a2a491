// The completion cells that the backend below gets as dw_work.
//
// Threads: `complete` from any thread.
#ifndef DISTWRAP_SRC_ALGO_BELOW_CELL_H_
#define DISTWRAP_SRC_ALGO_BELOW_CELL_H_

#include "base/mutex.h"
#include "distwrap/abi/plugin.h"

namespace distwrap::algo {

class Cell {
 public:
  Cell() = default;
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  dw_work* abi() { return reinterpret_cast<dw_work*>(this); }
  // The function of the host table that the backend below calls.
  static void complete(dw_work* work, int32_t code, const dw_error* error) {
    reinterpret_cast<Cell*>(work)->end(code, error);
  }

  virtual void end(int32_t code, const dw_error* error) = 0;

 protected:
  virtual ~Cell() = default;
};

// The cell of an operation that is passed down unchanged; it notifies the host
// above. Owns itself until the operation ends.
class ForwardCell final : public Cell {
 public:
  ForwardCell(const dw_host_api& host, dw_work* work)
      : host_(host), work_(work) {}
  ~ForwardCell() override = default;
  void end(int32_t code, const dw_error* error) override {
    const dw_host_api& host = host_;
    dw_work* const work = work_;
    delete this;
    host.complete(work, code, error);
  }

 private:
  const dw_host_api& host_;
  dw_work* const work_;
};

// Waits for any number of the decorator's own operations together. It may be
// destroyed when `wait_all` has returned.
class Gate final : public Cell {
 public:
  ~Gate() override = default;

  // Called before an operation is submitted.
  void expect();
  void end(int32_t code, const dw_error* error) override;

  // False while operations are in flight and none has failed. With `until`,
  // waits until that changes or the time has passed.
  bool settled();
  bool wait_settled(Deadline until);
  // Whether all have ended; with `until`, waits for it.
  bool wait_all(Deadline until);
  // After `wait_all`: returns the first failure and resets the gate.
  int32_t take(dw_error* error);

 private:
  bool settled_locked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return pending_ == 0 || code_ != DW_OK;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t code_ ABSL_GUARDED_BY(mutex_) = DW_OK;
  dw_error error_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_BELOW_CELL_H_
