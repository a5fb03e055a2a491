// The promises of the engine: `caps` reports them, and `read_call` checks
// operations against them. The host composes collectives of messages.
#ifndef DISTWRAP_BACKENDS_UCX_PROMISE_H_
#define DISTWRAP_BACKENDS_UCX_PROMISE_H_

#include "sdk/shapes.h"

namespace ucx_backend {

inline constexpr dw_sdk::Shapes kShapes = dw_sdk::shapes_of(dw_sdk::kMessages);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_PROMISE_H_
