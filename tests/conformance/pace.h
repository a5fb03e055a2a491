// The number of calls in this build, and the seed of the sample.
#ifndef DISTWRAP_TESTS_CONFORMANCE_PACE_H_
#define DISTWRAP_TESTS_CONFORMANCE_PACE_H_

#include "distwrap/abi/note.h"

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace distwrap::conformance {

// With a sanitizer everything takes ten times longer.
inline constexpr bool kSlow = DW_SANITIZER != DW_SANITIZER_NONE;

// The sizes of groups.
inline std::vector<int> all_sizes() {
  if (kSlow) return {1, 2, 3, 5};
  return {1, 2, 3, 4, 5, 8};
}

// DISTWRAP_TEST_SEED chooses another sample of calls.
inline uint64_t test_seed() {
  const char* const given = std::getenv("DISTWRAP_TEST_SEED");
  return given == nullptr ? 20240229 : std::strtoull(given, nullptr, 10);
}

}  // namespace distwrap::conformance

#endif  // DISTWRAP_TESTS_CONFORMANCE_PACE_H_
