// The operations of this engine: `caps` promises them, `read_call` refuses
// others.
#ifndef DISTWRAP_BACKENDS_SHM_PROMISE_H_
#define DISTWRAP_BACKENDS_SHM_PROMISE_H_

#include "sdk/shapes.h"

namespace shm_backend {

inline constexpr dw_sdk::Shapes kShapes = dw_sdk::shapes_of(dw_sdk::kTwoSided);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_PROMISE_H_
