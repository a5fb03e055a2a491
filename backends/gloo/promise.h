// The promises of the engine: `caps` reports them, and `read_call` checks
// operations against them.
#ifndef DISTWRAP_BACKENDS_GLOO_PROMISE_H_
#define DISTWRAP_BACKENDS_GLOO_PROMISE_H_

#include "sdk/shapes.h"

namespace gloo_backend {

inline constexpr uint64_t kOps = dw_sdk::kTwoSided & ~DW_BIT(DW_OP_SCAN);

// Without premul_sum, whose factor applies to each rank's own input, which must
// not be written.
constexpr uint64_t types_of(uint16_t kind, uint16_t reduction) {
  return reduction == DW_REDUCE_PREMUL_SUM ? 0
                                           : dw_sdk::types_of(kind, reduction);
}

inline constexpr dw_sdk::Shapes kShapes = [] {
  dw_sdk::Shapes shapes = dw_sdk::shapes_of(kOps);
  // Not in place, because a piece would be overwritten before it was sent.
  shapes[DW_OP_ALL_TO_ALL].flags = DW_FLAG_CALLER_WAITS;
  shapes[DW_OP_ALL_TO_ALL].flags |= DW_FLAG_PER_RANK | DW_FLAG_PARTS;
  return shapes;
}();

}  // namespace gloo_backend

#endif  // DISTWRAP_BACKENDS_GLOO_PROMISE_H_
