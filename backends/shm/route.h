// The way of a call: through staging, or with the other ranks' own memory.
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

// What a rank shows at most in a call, as all ranks know it; kPairs, when only
// pairs of ranks do.
inline constexpr size_t kPairs = SIZE_MAX;
size_t shown_by_all(const Call& call, int size);

// From which sizes on there are two ways; SIZE_MAX: never, the same on all
// ranks.
size_t tried_from(const Comm& comm, const Call& call);

// The choices of a communicator: by operation, and by size from one power of
// two to the next.
class Choices {
 public:
  // `shown` is `least` or more; `ring` is how much staging is used in turn.
  Choice& of(const Call& call, size_t shown, size_t least, size_t ring);

 private:
  static constexpr int kFirst = DW_OP_BROADCAST, kLast = DW_OP_ALL_TO_ALL;
  static constexpr int kRows = 15;
  std::optional<Choice> all_[kLast - kFirst + 1][kRows];
};

// One call, which may be a try of its way.
class Attempt {
 public:
  // Ranks agree on the way first, when that is due. DW_OK, or they could not.
  int32_t begin(Comm* comm, const Call& call, size_t shown, dw_error* error);
  // Pieces are moved from buffer to buffer, and elements reduced where they
  // lie.
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
