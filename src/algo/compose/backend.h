// An opened decorator: the backend below with its table, and what it promises.
//
// Threads: constant after `open`, but for the calls below that say otherwise.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_BACKEND_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_BACKEND_H_

#include "algo/compose/cell.h"
#include "algo/compose/recipes.h"
#include "base/mutex.h"
#include "distwrap/abi/plugin.h"

#include <absl/types/span.h>

#include <atomic>
#include <vector>

namespace distwrap::algo::compose {

class Backend {
 public:
  static int32_t open(const dw_host_api* host, const dw_open_info* info,
                      dw_backend** backend, dw_error* error);
  static Backend& of(dw_backend* backend) {
    return *reinterpret_cast<Backend*>(backend);
  }
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // The host above.
  const dw_host_api& host() const { return *host_; }
  int64_t now_ns() const { return host_->now_ns(host_->self); }
  // The table below; what it lacks is NULL.
  const dw_backend_api& inner() const { return inner_; }
  dw_backend* inner_backend() const { return inner_backend_; }
  const Recipes& recipes() const { return recipes_; }
  const std::vector<dw_caps_row>& rows() const { return rows_; }
  bool has_groups() const {
    return has_groups_.load(std::memory_order_relaxed);
  }
  // Of the backend below.
  bool has_windows() const { return has_windows_; }
  // Whether they are made of its messages, or, without those, within a rank.
  bool composes_windows() const { return !has_windows_ && recipes_.composes(); }
  bool has_messages() const {
    return recipes_.message_carrier(DW_DTYPE_U8) >= 0;
  }
  void forget_groups() { has_groups_.store(false, std::memory_order_relaxed); }

  // For slots of the backend below that take one thread at a time.
  base::Mutex& calls() ABSL_LOCK_RETURNED(calls_) { return calls_; }

  // Lets the backend below work, unless somebody else does; the number of
  // events. [any]
  int32_t progress();
  // Until all operations of the gate have ended or one has failed. [any]
  void wait_settled(Gate& gate);
  // Until all have ended. [any]
  void wait_all(Gate& gate);

 private:
  Backend() = default;
  template <class Done>
  void wait(Gate& gate, bool (Gate::*wait_until)(Deadline), Done done);
  void promise();
  void hand_on_windows(absl::Span<const dw_caps_row> rows);

  const dw_host_api* host_ = nullptr;
  dw_host_api below_ = {};  // the host's table with our cells
  dw_backend_api inner_ = {};
  dw_backend* inner_backend_ = nullptr;
  Recipes recipes_;
  std::vector<dw_caps_row> rows_;
  bool has_windows_ = false;
  std::atomic<bool> has_groups_{false};
  // Whether `progress` has ever had something to do: some backends have it, but
  // complete their work in threads of their own.
  std::atomic<bool> progresses_{false};
  base::Mutex calls_;
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_BACKEND_H_
