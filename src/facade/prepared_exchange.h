// The state behind an AllToAllVOp: a window with room for what each rank sends
// in two calls, and two outputs.
//
// Call n writes into the rooms n % 2 of its peers, each with a head, and raises
// its own slot there to n. A rank begins call n + 1 after it has copied all
// that came in call n, and a peer begins n + 2 after it has heard of n + 1, so
// no room is written before its rows were taken. Numbers are of 64 bits.
//
// Threads: one at a time. Ownership: keeps the group.
#ifndef DISTWRAP_SRC_FACADE_PREPARED_EXCHANGE_H_
#define DISTWRAP_SRC_FACADE_PREPARED_EXCHANGE_H_

#include "distwrap/group.h"
#include "distwrap/op_options.h"
#include "distwrap/tensor_view.h"
#include "distwrap/window.h"
#include "moe/exchange.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace distwrap::facade {

class PreparedExchange {
 public:
  // `number`: of the last call before the first one.
  PreparedExchange(Group group, int64_t capacity_bytes,
                   int64_t max_bytes_per_peer, uint64_t number = 0)
      : group_(std::move(group)),
        capacity_(capacity_bytes),
        most_(max_bytes_per_peer),
        number_(number) {}

  absl::Status setup();
  absl::StatusOr<TensorView> run(const TensorView& x,
                                 absl::Span<const int64_t> out_splits,
                                 absl::Span<const int64_t> in_splits,
                                 const OpOptions& options);
  absl::StatusOr<TensorView> send_buffer(int64_t count, DType dtype);
  absl::StatusOr<TensorView> run_from_buffer(
      absl::Span<const int64_t> out_splits, absl::Span<const int64_t> in_splits,
      const OpOptions& options);
  absl::Status close();

 private:
  enum class Life : uint8_t { kNew, kOpen, kClosed };
  // The rows of a call in bytes, by rank.
  struct Parts {
    int64_t row = 0;
    std::vector<int64_t> out, in;
  };

  absl::StatusOr<moe::CallPlace> place(const char* call,
                                       const OpOptions& options) const;
  absl::Status read_splits(const moe::Exchange& exchange, const TensorView& x,
                           absl::Span<const int64_t> out_splits,
                           absl::Span<const int64_t> in_splits, Parts* parts);
  absl::Status send(const moe::Exchange& exchange, const TensorView& x,
                    const Parts& parts, const CallOptions& how);
  absl::Status take(const moe::Exchange& exchange, int from, int64_t expected,
                    uint8_t* to, const CallOptions& how);
  // Where what rank `from` sends in call `number` lies in a window's part.
  int64_t room(int from, uint64_t number) const {
    return (static_cast<int64_t>(number % 2) * window_.size() + from) * stride_;
  }

  Group group_;  // empty: the world at setup
  int64_t capacity_, most_;
  uint64_t number_;
  Life life_ = Life::kNew;
  Window window_;
  int64_t stride_ = 0;
  // By call: rows that came, and the shape of the view on them.
  std::vector<uint8_t> outputs_[2];
  std::vector<int64_t> shapes_[2];
  std::vector<uint8_t> send_buffer_;
  TensorView sent_;
  // The first failure of a call, after which the ranks are out of step.
  std::optional<absl::Status> failed_;
};

}  // namespace distwrap::facade

#endif  // DISTWRAP_SRC_FACADE_PREPARED_EXCHANGE_H_
