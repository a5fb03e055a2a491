// A job of one rank on the backend that the argument names.
#include <distwrap/abi/plugin.h>
#include <distwrap/distwrap.h>

#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  distwrap::InitOptions options;
  options.rank = 0;
  options.world_size = 1;
  options.backend = argc > 1 ? argv[1] : "auto";
  const absl::Status started = distwrap::init_process_group(options).status();
  if (!started.ok()) {
    std::cerr << started.message() << "\n";
    return 1;
  }
  std::vector<float> x(100, 2.0f);
  const absl::Status done =
      distwrap::all_reduce(distwrap::TensorView(x)).status();
  const absl::Status ended = distwrap::destroy_process_group();
  if (!done.ok() || !ended.ok() || x[99] != 2.0f) {
    std::cerr << done.message() << ", " << ended.message() << ", " << x[99]
              << "\n";
    return 1;
  }
  std::cout << "a job of one rank on " << options.backend << "\n";
  return 0;
}
