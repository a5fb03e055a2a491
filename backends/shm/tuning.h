// The sizes at which operations change their algorithm: those of tuning.def, or
// those that were measured on the machine and given by the hint `tuning`.
//
// All ranks of a group have to choose alike, so all use rank 0's sizes, which
// stand in the header of the group segment.
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
  // Whether each size is from kLeast to kMost. Any such size is safe.
  bool is_sane() const;
};

// Reads "name=bytes,name=bytes" and keeps the sizes that are not named. On an
// error, which names the first wrong entry, nothing changes.
int32_t read_tuning(dw_str text, Tuning* tuning, dw_error* error);

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_TUNING_H_
