// What the engine does: `caps` tells it, `read_call` holds operations to it.
#ifndef DISTWRAP_BACKENDS_SHM_PROMISE_H_
#define DISTWRAP_BACKENDS_SHM_PROMISE_H_

#include "sdk/shapes.h"

namespace shm_backend {

inline constexpr dw_sdk::Shapes kShapes = dw_sdk::shapes_of(dw_sdk::kTwoSided);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_PROMISE_H_
