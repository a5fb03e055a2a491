// Every rank gives ones and gets the number of ranks.
#include <distwrap/distwrap.h>

#include <iostream>
#include <vector>

namespace dw = distwrap;

int main() {
  std::vector<float> x(1024, 1.0f);
  absl::Status done = dw::init_process_group().status();
  if (done.ok()) done = dw::all_reduce(dw::TensorView(x)).status();
  std::cout << dw::get_rank() << ": " << x[0] << " " << done.message() << "\n";
  if (done.ok()) done = dw::destroy_process_group();
  return done.ok() ? 0 : 1;
}
