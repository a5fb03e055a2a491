// The hints of this backend, typed. Unset ones leave the choice to NCCL, whose
// own variables (NCCL_*) stay the user's.
#ifndef DISTWRAP_BACKENDS_NCCL_HINTS_H_
#define DISTWRAP_BACKENDS_NCCL_HINTS_H_

#include "distwrap/abi/types.h"
#include "nccl_types.h"

#include <string>

namespace nccl_backend {

inline constexpr dw_str kHints[] = {
#define NCCL_TEXT_HINT(name) {#name, sizeof #name - 1},
#define NCCL_INT_HINT(name, least, most) {#name, sizeof #name - 1},
#define NCCL_FIELD_HINT(name, field, since, least, most) \
  {#name, sizeof #name - 1},
#include "hints.def"
};

struct Hints {
#define NCCL_TEXT_HINT(name) std::string name;
#define NCCL_INT_HINT(name, least, most) int name = kUnset;
#define NCCL_FIELD_HINT(name, field, since, least, most) int name = kUnset;
#include "hints.def"

  // The hints that have to be equal on all ranks, as one text.
  std::string common() const;
};

// Reads hints over those of `hints`; unknown ones are refused. An error names
// the hint, its value and what is allowed.
int32_t read_hints(const dw_hint* given, uint64_t n, Hints* hints,
                   dw_error* error);

}  // namespace nccl_backend

#endif  // DISTWRAP_BACKENDS_NCCL_HINTS_H_
