// moe_dispatch.
#ifndef DISTWRAP_SRC_MOE_DISPATCH_CALL_H_
#define DISTWRAP_SRC_MOE_DISPATCH_CALL_H_

#include "moe/call.h"
#include "moe/rows.h"

#include <absl/container/inlined_vector.h>
#include <absl/types/span.h>

#include <optional>
#include <vector>

namespace distwrap::moe {

class DispatchCall final : public MoeCall {
 public:
  static std::optional<ErrorInfo> find_fault(
      PlanState& plan, const TensorView& x, const TensorView& out,
      absl::Span<const SideChannel> side);

  // Checked arguments.
  DispatchCall(std::shared_ptr<PlanState> plan, CallPlace place,
               const TensorView& x, const TensorView& out,
               absl::Span<const SideChannel> side);

  absl::StatusOr<Work> second(bool async) override;
  void end() override;

 private:
  // A part of what travels of a token: the payload, then the side rows.
  struct Channel {
    ByteRows in, out;
    bool weights = false;
  };

  absl::StatusOr<Work> send_first(bool async) override;
  CallFacts facts() const override {
    return {0, static_cast<int64_t>(dtype_), stride_,
            static_cast<int64_t>(channels_.size())};
  }
  void sum_weights();
  // The last hop: rows go to their places.
  void add_channels();
  // One hop: rows go from the input to their places.
  absl::StatusOr<Work> move_rows(bool async);
  // Two hops: rows go from the input to the forwarders' staging memory.
  absl::StatusOr<Work> send_rows(bool async);
  // The weights of all slots of a row's token are at `came`, by output row.
  // Leaves those of the row's pairs.
  void pick_weights(const Channel& channel, const uint8_t* came);
  void clear_padding();

  const Moves& moves_;
  const DType dtype_;
  absl::InlinedVector<Channel, 4> channels_;
  int64_t stride_ = 0;  // bytes of a row, side rows included
};

// The weights (T,K) of a routing's slots, with those of repeated experts added
// to the first, in the order of the slots, and 0 for slots that do not count.
void add_repeated(const Routing& routing, const float* weights, float* out);

}  // namespace distwrap::moe

#endif  // DISTWRAP_SRC_MOE_DISPATCH_CALL_H_
