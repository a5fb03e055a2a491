// The guarded functions of Gloo and UCX, each called properly by one process
// that talks to itself.
#ifndef DISTWRAP_TESTS_GUARD_ENGINE_FUNCTIONS_H_
#define DISTWRAP_TESTS_GUARD_ENGINE_FUNCTIONS_H_

#include <functional>
#include <string>
#include <vector>

namespace distwrap {

enum class Outcome { kDone, kRefused, kWrong };

struct EngineFunction {
  std::string name;
  std::function<Outcome()> call;
};

std::vector<EngineFunction> gloo_functions();
std::vector<EngineFunction> ucx_functions();

}  // namespace distwrap

#endif  // DISTWRAP_TESTS_GUARD_ENGINE_FUNCTIONS_H_
