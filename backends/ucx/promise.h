// What the engine does: `caps` tells it, `read_call` holds operations to it.
// Collectives are composed of messages by the host.
#ifndef DISTWRAP_BACKENDS_UCX_PROMISE_H_
#define DISTWRAP_BACKENDS_UCX_PROMISE_H_

#include "sdk/shapes.h"

namespace ucx_backend {

inline constexpr dw_sdk::Shapes kShapes = dw_sdk::shapes_of(dw_sdk::kMessages);

}  // namespace ucx_backend

#endif  // DISTWRAP_BACKENDS_UCX_PROMISE_H_
