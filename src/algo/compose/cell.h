// What the backend below knows as a dw_work.
//
// Threads: `complete` from any thread.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_CELL_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_CELL_H_

#include "base/mutex.h"
#include "distwrap/abi/plugin.h"

namespace distwrap::algo::compose {

class Cell {
 public:
  Cell() = default;
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  dw_work* abi() { return reinterpret_cast<dw_work*>(this); }
  // The slot of the host table that the backend below gets.
  static void complete(dw_work* work, int32_t code, const dw_error* error) {
    reinterpret_cast<Cell*>(work)->end(code, error);
  }

  virtual void end(int32_t code, const dw_error* error) = 0;

 protected:
  virtual ~Cell() = default;
};

// An operation that is handed down as it is: tells the host above. Owns itself
// until it ends.
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

// Any number of own operations that are waited for together. It may go when
// `wait_all` has returned.
class Gate final : public Cell {
 public:
  ~Gate() override = default;

  // Before an operation is submitted.
  void expect();
  void end(int32_t code, const dw_error* error) override;

  // False while some are in flight and none has failed. Waits until then, or to
  // `until`.
  bool settled();
  bool wait_settled(Deadline until);
  // Whether all have ended; waits for it, or to `until`.
  bool wait_all(Deadline until);
  // After `wait_all`: how the first to fail did, and begins anew.
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

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_CELL_H_
