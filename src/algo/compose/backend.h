// An opened decorator: the backend below, and the rows that it promises.
//
// Threads: constant after `open`, but for the calls below that say otherwise.
#ifndef DISTWRAP_SRC_ALGO_COMPOSE_BACKEND_H_
#define DISTWRAP_SRC_ALGO_COMPOSE_BACKEND_H_

#include "algo/below/backend.h"
#include "algo/compose/recipes.h"
#include "distwrap/abi/plugin.h"

#include <absl/types/span.h>

#include <atomic>
#include <vector>

namespace distwrap::algo::compose {

class Backend : public BackendBelow {
 public:
  static int32_t open(const dw_host_api* host, const dw_open_info* info,
                      dw_backend** backend, dw_error* error);
  static Backend& of(dw_backend* backend) {
    return *reinterpret_cast<Backend*>(backend);
  }

  const Recipes& recipes() const { return recipes_; }
  const std::vector<dw_caps_row>& rows() const { return rows_; }
  bool has_groups() const {
    return has_groups_.load(std::memory_order_relaxed);
  }
  // Whether the backend below has windows.
  bool has_windows() const { return has_windows_; }
  // Whether windows are made of its messages or, without those, within a rank.
  bool composes_windows() const { return !has_windows_ && recipes_.on_host(); }
  bool has_messages() const {
    return recipes_.message_carrier(DW_DTYPE_U8) >= 0;
  }
  // The operations that go directly to the inner backend when the caller waits,
  // as bits DW_OP_<KIND>. Operations that complete later never do, since the
  // inner backend completes the decorator's cells and not the host's.
  uint64_t passed_on() const;
  void forget_groups() { has_groups_.store(false, std::memory_order_relaxed); }

  Backend() = default;

 private:
  int32_t open_below(const dw_host_api* host, dw_open_info info,
                     dw_error* error);
  void promise();
  void promise_on_device(uint32_t memory);
  void hand_on_windows(absl::Span<const dw_caps_row> rows);

  Recipes recipes_;
  std::vector<dw_caps_row> rows_;
  bool has_windows_ = false;
  std::atomic<bool> has_groups_{false};
};

}  // namespace distwrap::algo::compose

#endif  // DISTWRAP_SRC_ALGO_COMPOSE_BACKEND_H_
