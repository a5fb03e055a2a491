// A rank whose tensor has another size, and the error on all ranks:
// docs/watching.md.
#include <distwrap/distwrap.h>

#include <cstdio>
#include <vector>

int main() {
  const auto session = distwrap::Session::create();
  if (!session.ok()) return std::puts(session.status().ToString().c_str()), 1;
  std::vector<float> x(session->rank() == 1 ? 512 : 1024, 1);
  const auto work =
      distwrap::all_reduce(distwrap::TensorView(x), distwrap::ReduceOp::kSum,
                           {.group = session->world(), .label = "gradients"});
  if (work.ok()) return 1;
  std::puts(std::string(work.status().message()).c_str());
  return 0;
}
