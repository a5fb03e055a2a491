// The backend below a decorator: its table, and how the decorator waits for it.
//
// Threads: constant after `open`, but for the calls below that say otherwise.
#ifndef DISTWRAP_SRC_ALGO_BELOW_BACKEND_H_
#define DISTWRAP_SRC_ALGO_BELOW_BACKEND_H_

#include "algo/below/cell.h"
#include "base/mutex.h"
#include "distwrap/abi/plugin.h"

#include <absl/types/span.h>

#include <atomic>

namespace distwrap::algo {

class BackendBelow {
 public:
  BackendBelow() = default;
  ~BackendBelow();
  BackendBelow(const BackendBelow&) = delete;
  BackendBelow& operator=(const BackendBelow&) = delete;

  // The host above.
  const dw_host_api& host() const { return *host_; }
  int64_t now_ns() const { return host_->now_ns(host_->self); }
  // The table below; a slot that it lacks is NULL.
  const dw_backend_api& inner() const { return inner_; }
  dw_backend* inner_backend() const { return inner_backend_; }

  // For slots of the backend below that take one thread at a time.
  base::Mutex& calls() ABSL_LOCK_RETURNED(calls_) { return calls_; }

  // Calls `progress` of the backend below, unless another thread is doing so;
  // returns the number of events. [any]
  int32_t progress();
  // Waits until all operations of the gate have ended or one has failed. [any]
  void wait_settled(Gate& gate);
  // Waits until all operations of the gate have ended. [any]
  void wait_all(Gate& gate);

 protected:
  // Opens the one inner table of `info`, so that completions reach the
  // decorator's cells. `rows` are its capabilities, valid as long as it is
  // open.
  int32_t open(const dw_host_api* host, dw_open_info info,
               absl::Span<const dw_caps_row>* rows, dw_error* error);

 private:
  template <class Done>
  void wait(Gate& gate, bool (Gate::*wait_until)(Deadline), Done done);

  const dw_host_api* host_ = nullptr;
  dw_host_api below_ = {};  // the host's table with our cells
  dw_backend_api inner_ = {};
  dw_backend* inner_backend_ = nullptr;
  // Whether `progress` has ever had something to do: some backends have it, but
  // complete their work in threads of their own.
  std::atomic<bool> progresses_{false};
  base::Mutex calls_;
};

}  // namespace distwrap::algo

#endif  // DISTWRAP_SRC_ALGO_BELOW_BACKEND_H_
