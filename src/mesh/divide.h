// The division of an average that travelled as a sum.
#ifndef DISTWRAP_SRC_MESH_DIVIDE_H_
#define DISTWRAP_SRC_MESH_DIVIDE_H_

#include "distwrap/types.h"

#include <cstdint>

namespace distwrap::mesh {

// out[i] = in[i] / divisor; integers truncate toward zero, 16-bit floats are
// divided as f32.
void divide(void* out, const void* in, int64_t count, DType dtype,
            int64_t divisor);

}  // namespace distwrap::mesh

#endif  // DISTWRAP_SRC_MESH_DIVIDE_H_
