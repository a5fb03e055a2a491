// Chooses the way of a call: through staging, or with the other ranks' own
// memory (zero-copy or CMA).
#ifndef DISTWRAP_BACKENDS_SHM_ROUTE_H_
#define DISTWRAP_BACKENDS_SHM_ROUTE_H_

#include "call.h"
#include "choice.h"
#include "distwrap/abi/types.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace shm_backend {

struct Comm;

// Most bytes that a rank publishes in a call, if all ranks know it; kPairs when
// only pairs of ranks know sizes.
inline constexpr size_t kPairs = SIZE_MAX;
size_t shown_by_all(const EngineOp& call, int size);

// The size from which both ways are tried; SIZE_MAX: never. Equal on all ranks.
size_t tried_from(const Comm& comm, const EngineOp& call);

// The choices of a communicator, by operation and by size between two powers of
// two.
class Choices {
 public:
  // `shown` bytes, at least `least`, are published; `ring` is how many bytes of
  // staging are used in turn.
  Choice& of(const EngineOp& call, size_t shown, size_t least, size_t ring);

 private:
  static constexpr int kFirst = DW_OP_BROADCAST, kLast = DW_OP_ALL_TO_ALL;
  static constexpr int kRows = 15;
  std::optional<Choice> all_[kLast - kFirst + 1][kRows];
};

// One call, which may be a try.
class Attempt {
 public:
  // Lets the ranks agree on the way first, when that is due. DW_OK, or they
  // could not.
  int32_t begin(Comm* comm, const EngineOp& call, size_t shown,
                dw_error* error);
  // The call uses CMA or reduces elements where they lie.
  bool is_in_place() const { return is_in_place_; }
  void end();

 private:
  const dw_host_api* host_ = nullptr;
  Choice* choice_ = nullptr;
  bool is_in_place_ = false;
  int64_t began_ns_ = 0;
};

}  // namespace shm_backend

#endif  // DISTWRAP_BACKENDS_SHM_ROUTE_H_
