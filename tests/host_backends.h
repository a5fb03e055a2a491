// The backends of host memory that a build has, for tests that run over each.
#ifndef DISTWRAP_TESTS_HOST_BACKENDS_H_
#define DISTWRAP_TESTS_HOST_BACKENDS_H_

#include <string>
#include <vector>

namespace distwrap::testing {

#ifdef DISTWRAP_HAS_UCX
inline constexpr bool kHasUcx = true;
#else
inline constexpr bool kHasUcx = false;
#endif

// The given backends, and those of `ucx` where the build has UCX.
template <typename T>
std::vector<T> and_ucx(std::vector<T> others, std::vector<T> ucx) {
  if (kHasUcx) others.insert(others.end(), ucx.begin(), ucx.end());
  return others;
}

// The backends for several ranks, the default first, followed by `more`.
template <typename Name = const char*>
std::vector<Name> host_backends(std::vector<Name> more = {}) {
  std::vector<Name> all = {"shm", "gloo"};
  all.insert(all.end(), more.begin(), more.end());
  return and_ucx<Name>(all, {"ucx"});
}

// Names the parameter of a test, which is a backend.
inline constexpr auto name_of_backend = [](const auto& test) {
  return std::string(test.param);
};

}  // namespace distwrap::testing

#endif  // DISTWRAP_TESTS_HOST_BACKENDS_H_
