// Random numbers that depend on a seed, a call and the index of an element, and
// on nothing else: whoever draws element 17 of a call gets the same number,
// however the tensor is cut.
//
// Source: Salmon et al. 2011, Philox4x32-10, as Random123 has it.
//
// Threads: the default generator may be used from any thread. Ownership: plain
// values.
//
//   manual_seed(1);
//   ops::dropout(x, 0.1);                       // call 0 of seed 1
//   ops::rand({3}, DType::kF32, kCpu, Generator{.seed = 7, .call = 0});
#ifndef DISTWRAP_RANDOM_H_
#define DISTWRAP_RANDOM_H_

#include "distwrap/export.h"

#include <cstdint>

namespace distwrap {

// One call's numbers: all elements of the call are drawn with both.
struct Generator {
  uint64_t seed = 0, call = 0;
  friend constexpr bool operator==(const Generator&,
                                   const Generator&) = default;
};

// The default generator starts anew with this seed, at call 0. The seed of a
// new process is 0.
DISTWRAP_EXPORT void manual_seed(uint64_t seed);
// The default generator's next call.
DISTWRAP_EXPORT Generator next_generator();

}  // namespace distwrap

#endif  // DISTWRAP_RANDOM_H_
