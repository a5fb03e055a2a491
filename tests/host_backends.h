// The backends of host memory that a build has, for tests that run over each.
#ifndef DISTWRAP_TESTS_HOST_BACKENDS_H_
#define DISTWRAP_TESTS_HOST_BACKENDS_H_

#include <vector>

namespace distwrap::testing {

#ifdef DISTWRAP_HAS_UCX
inline constexpr bool kHasUcx = true;
#else
inline constexpr bool kHasUcx = false;
#endif

// These, and UCX where the build has it, as `ucx`.
template <typename T>
std::vector<T> and_ucx(std::vector<T> others, std::vector<T> ucx) {
  if (kHasUcx) others.insert(others.end(), ucx.begin(), ucx.end());
  return others;
}

// Those that are written for many ranks; `more` beside them.
template <typename Name = const char*>
std::vector<Name> host_backends(std::vector<Name> more = {}) {
  std::vector<Name> all = {"gloo", "shm"};
  all.insert(all.end(), more.begin(), more.end());
  return and_ucx<Name>(all, {"ucx"});
}

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_HOST_BACKENDS_H_
