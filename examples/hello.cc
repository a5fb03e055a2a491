// Every rank gives ones and gets the number of ranks.
#include <distwrap/distwrap.h>

#include <iostream>
#include <vector>

namespace dw = distwrap;

int main() {
  std::vector<float> x(1024, 1.0f);
  absl::Status status = dw::init_process_group().status();
  if (status.ok()) status = dw::all_reduce(dw::TensorView(x)).status();
  std::cout << dw::get_rank() << ": " << x[0] << ", " << status << "\n";
  if (status.ok()) status = dw::destroy_process_group();
  return status.ok() ? 0 : 1;
}
