// One rank's communicator: takes operations and decides in which thread each
// runs.
//
// The `submit` below takes one thread at a time. A caller that waits inside it
// is alone there, without a lock: the operation thread has nothing to do then,
// and if the host submits beside the caller, the backend below allows that.
// Operations that do not wait are submitted under `submits_`. While the
// operation thread is busy, collectives go through it, so that on every rank
// they reach the backend below in the order of their submission. Messages go
// there at once: a peer's message must never wait for a collective.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_COMM_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_COMM_H_

#include "algo/compose/backend.h"
#include "algo/compose/execution.h"
#include "algo/compose/operation_thread.h"
#include "algo/compose/self_messages.h"
#include "algo/windows/message_service.h"
#include "base/mutex.h"
#include "distwrap/abi/plugin.h"

#include <atomic>
#include <memory>

namespace distwrap::algo::compose {

class Comm {
 public:
  Comm(Backend& backend, dw_comm* inner, int rank, int size);
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  static Comm& of(dw_comm* comm) { return *reinterpret_cast<Comm*>(comm); }
  dw_comm* abi() { return reinterpret_cast<dw_comm*>(this); }

  Backend& backend() const { return backend_; }
  dw_comm* inner() const { return inner_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  int32_t query(const dw_op* given, dw_error* error);
  int32_t submit(const dw_op* given, dw_work* work, dw_error* error);
  // The service of windows that are made of messages; NULL before the first
  // window. `use` ends the service that was used before.
  std::shared_ptr<windows::MessageService> service();
  void use(std::shared_ptr<windows::MessageService> service);

  // May be called from any thread. In window.cc.
  int32_t submit_to_window(const dw_op& op, dw_work* work, dw_error* error);
  int32_t query_window(const dw_op& op, dw_error* error);
  int32_t abort(const dw_error* why);
  // Ends the threads; false when one is still busy at the deadline.
  bool stop(int64_t deadline_ns);

  // How an operation is served.
  enum class Route : uint8_t { kNative, kToSelf, kComposed };
  // Finds how an operation is served, and checks it.
  int32_t plan(const dw_op& op, Route* way, dw_error* error);
  // Starts a message of a set; `cell` is notified of its end. DW_OK or DW_DONE,
  // or an error.
  int32_t start_message(const dw_op& op, Route way, Cell& cell,
                        dw_error* error);
  // Whether the backend below moves rows by itself (abi/moe.h); known once one
  // such operation was planned.
  bool moves_rows_of(const dw_op& op) const {
    return rows_of(op).load(std::memory_order_relaxed) == Rows::kNative;
  }
  // Submits an operation whose `plan` is known.
  int32_t submit_planned(const dw_op& op, Route way, dw_work* work,
                         dw_error* error);
  // Starts a prepared operation of the backend below, which ends later.
  int32_t forward_start(dw_plan* below, const dw_start& start, dw_work* work,
                        dw_error* error);
  bool thread_idle() const {
    return composing_.load(std::memory_order_acquire) == 0;
  }
  SelfMessages& self() { return self_; }

  // State of a native operation.
  uint64_t seq_below(const dw_op& op) const;

  // For threads that run recipes: submits below, and again until the deadline
  // while the backend lacks resources. Without `work` the caller waits.
  int32_t submit_below(const dw_op& op, dw_work* work, dw_error* error);
  // Submits below work that ends later; DW_AGAIN while the backend lacks
  // resources.
  int32_t submit_once(const dw_op& op, dw_work* work, dw_error* error);
  // Held around every submission below that does not wait.
  base::Mutex& submits() ABSL_LOCK_RETURNED(submits_) { return submits_; }
  // Held while both parts of a carried message are submitted.
  base::Mutex& carried() ABSL_LOCK_RETURNED(carried_) { return carried_; }
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  int32_t refuse_aborted(dw_error* error);
  // Breaks the group after an operation has failed half-way, so that no rank
  // waits for the rest of it.
  void break_group(const dw_error& why);

  // Called by the operation thread.
  void run_task(Task& task);

 private:
  // Runs an operation to its end in the caller's thread.
  int32_t wait_here(const dw_op& op, dw_error* error);
  // Runs an operation beside others: a message at once, others by the operation
  // thread.
  int32_t run_beside(const dw_op& op, Route way, dw_work* work,
                     dw_error* error);
  int32_t enqueue(const dw_op& op, Route way, dw_work* work, Gate* gate,
                  dw_error* error);
  // For a caller that does not wait, DW_AGAIN is returned (`submit_once`) and
  // the host queues the operation; the operation thread tries again
  // (`submit_below`).
  using Submit = int32_t (Comm::*)(const dw_op&, dw_work*, dw_error*);
  int32_t forward(const dw_op& op, dw_work* work, Submit way, dw_error* error);
  int32_t submit_carried(const dw_op& op, dw_work* work, dw_error* error);
  // `plan` of an operation with the extension distwrap.moe.
  int32_t plan_rows(const dw_op& op, Route* way, dw_error* error);
  void abort_below(const dw_error* why);
  static bool end(std::shared_ptr<windows::MessageService> service,
                  int64_t deadline_ns);
  // The descriptor of a native operation for the backend below.
  dw_op lowered(const dw_op& op) const;

  Backend& backend_;
  dw_comm* const inner_;
  const int rank_, size_;
  int32_t (*const submit_)(dw_comm*, const dw_op*, dw_work*, dw_error*);
  // operations that the operation thread has queued or runs
  std::atomic<int> composing_{0};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> below_aborted_{false};
  enum class Rows : uint8_t { kUnknown, kNative, kComposed };
  std::atomic<Rows>& rows_of(const dw_op& op) const {
    return dw_sdk::moe_sum_extension_of(op) == nullptr ? rows_ : sums_;
  }
  // Whether the backend below moves rows, and rows that are added up.
  mutable std::atomic<Rows> rows_{Rows::kUnknown}, sums_{Rows::kUnknown};
  base::Mutex submits_, carried_;
  SelfMessages self_;
  Execution execution_;  // belongs to the caller's thread
  std::unique_ptr<OperationThread> operation_thread_;
  base::Mutex service_mutex_;
  std::shared_ptr<windows::MessageService> service_
      ABSL_GUARDED_BY(service_mutex_);
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_COMM_H_
