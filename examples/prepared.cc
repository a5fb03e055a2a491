// A ring of ranks: each sends what it has to the next one, many times, by an
// exchange that is checked and compared once.
#include <distwrap/distwrap.h>

#include <iostream>
#include <vector>

namespace dw = distwrap;

static absl::Status run() {
  if (auto session = dw::init_process_group(); !session.ok())
    return session.status();
  const auto rank = static_cast<size_t>(dw::get_rank());
  const auto n = static_cast<size_t>(dw::get_world_size());
  std::vector<float> out(2), in = {static_cast<float>(rank), 1};
  std::vector<int64_t> to(n), from(n);
  to[(rank + 1) % n] = 2;
  from[(rank + n - 1) % n] = 2;
  dw::Batch batch;
  batch.all_to_all_single(dw::TensorView(out), dw::TensorView(in), from, to);
  const absl::StatusOr<dw::PreparedOperation> exchange = batch.prepare();
  if (!exchange.ok()) return exchange.status();
  for (size_t step = 0; step < n; ++step) {
    if (absl::Status moved = exchange->start().status(); !moved.ok())
      return moved;
    in = {out[0], out[1] + 1};
  }
  std::cout << "my " << in[0] << " is back, after " << in[1] - 1 << " steps\n";
  return dw::destroy_process_group();
}

int main() {
  const absl::Status status = run();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
