// ncclConfig_t as the running library knows it.
#ifndef DISTWRAP_BACKENDS_NCCL_CONFIG_H_
#define DISTWRAP_BACKENDS_NCCL_CONFIG_H_

#include "hints.h"
#include "nccl_types.h"

namespace nccl_backend {

// Fills the form of NCCL `version`: never blocking, and the hints. A hint whose
// field the version lacks is refused; the error names both. Borrows the texts
// of `hints`.
int32_t fill_config(int version, const Hints& hints, ncclConfig* config,
                    dw_error* error);

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_CONFIG_H_
