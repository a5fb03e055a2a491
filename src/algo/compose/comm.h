// One rank's communicator: what enters, and in whose thread it runs.
//
// The `submit` below takes one thread at a time. One that waits inside is alone
// there, without a lock: the worker has nothing to do, and if the host submits
// beside it, the backend below allows that. What does not wait is submitted
// under `submits_`. While the worker is busy collectives go through it, so that
// on every rank they reach the backend below in the order in which they were
// submitted. Messages go there at once: no peer's message may have to wait for
// a collective.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_COMM_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_COMM_H_

#include "algo/compose/backend.h"
#include "algo/compose/execution.h"
#include "algo/compose/self_messages.h"
#include "algo/compose/worker.h"
#include "algo/windows/courier.h"
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
  // What windows that are made of messages are served by; NULL before the
  // first. The one that was used before is ended.
  std::shared_ptr<windows::Courier> courier();
  void use(std::shared_ptr<windows::Courier> courier);

  // From any thread; in window.cc.
  int32_t submit_to_window(const dw_op& op, dw_work* work, dw_error* error);
  int32_t query_window(const dw_op& op, dw_error* error);
  int32_t abort(const dw_error* why);
  // Ends the threads; false when one is still busy at the deadline.
  bool stop(int64_t deadline_ns);

  // How an operation is served.
  enum class Way : uint8_t { kNative, kToSelf, kComposed };
  // Everything that can be wrong with it, too.
  int32_t plan(const dw_op& op, Way* way, dw_error* error);
  // A message that is given in a set: starts it and tells `cell`. DW_OK or
  // DW_DONE, or an error.
  int32_t start_message(const dw_op& op, Way way, Cell& cell, dw_error* error);
  // An operation whose plan is known.
  int32_t submit_planned(const dw_op& op, Way way, dw_work* work,
                         dw_error* error);
  bool worker_idle() const {
    return composing_.load(std::memory_order_acquire) == 0;
  }
  SelfMessages& self() { return self_; }

  // Of a native operation.
  uint64_t seq_below(const dw_op& op) const;

  // For who executes. Submits below, to the deadline while it lacks resources;
  // without work the caller waits.
  int32_t submit_below(const dw_op& op, dw_work* work, dw_error* error);
  // Held around every submission below that does not wait.
  base::Mutex& submits() ABSL_LOCK_RETURNED(submits_) { return submits_; }
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  int32_t refuse_aborted(dw_error* error);
  // An operation failed half done: nobody shall wait for the rest of it.
  void break_group(const dw_error& why);

  // For the worker.
  void run_task(Task& task);

 private:
  // To the end, in the caller's thread.
  int32_t wait_here(const dw_op& op, dw_error* error);
  // As a message that may block nobody, or through the worker.
  int32_t run_beside(const dw_op& op, Way way, dw_work* work, dw_error* error);
  int32_t enqueue(const dw_op& op, Way way, dw_work* work, Gate* gate,
                  dw_error* error);
  int32_t forward(const dw_op& op, dw_work* work, dw_error* error);
  void abort_below(const dw_error* why);
  static bool end(std::shared_ptr<windows::Courier> courier,
                  int64_t deadline_ns);
  // As the backend below gets a native operation, or a message.
  void lower(const dw_op& op, Way way, dw_op* lowered) const;

  Backend& backend_;
  dw_comm* const inner_;
  const int rank_, size_;
  int32_t (*const submit_)(dw_comm*, const dw_op*, dw_work*, dw_error*);
  std::atomic<int> composing_{0};  // in the worker's queue or hands
  std::atomic<bool> aborted_{false};
  std::atomic<bool> below_aborted_{false};
  base::Mutex submits_;
  SelfMessages self_;
  Execution execution_;  // of the caller's thread
  std::unique_ptr<Worker> worker_;
  base::Mutex courier_mutex_;
  std::shared_ptr<windows::Courier> courier_ ABSL_GUARDED_BY(courier_mutex_);
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_COMM_H_
