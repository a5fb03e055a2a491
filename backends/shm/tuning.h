// From which sizes on operations go another way: tuning.def, or what was
// measured on the machine and given as the hint `tuning`.
//
// All ranks of a group have to go the same way: rank 0's are in the header of
// their arena, and the others take them from there.
#ifndef DISTWRAP_BACKENDS_SHM_TUNING_H_
#define DISTWRAP_BACKENDS_SHM_TUNING_H_

#include "distwrap/abi/types.h"

#include <cstdint>

namespace shm_backend {

// In bytes.
struct Tuning {
#define SHM_TUNING(name, bytes, what, way) uint64_t name = bytes;
#include "tuning.def"

  static constexpr uint64_t kLeast = 1 << 10, kMost = 1 << 30;
  // Each is from kLeast to kMost: no operation relies on more.
  bool is_sane() const;
};

// "name=bytes,name=bytes": those that are not named keep what they are. Refuses
// the first that is wrong, by its name, and changes nothing then.
int32_t read_tuning(dw_str text, Tuning* tuning, dw_error* error);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_TUNING_H_
