// Each rank has one expert and two tokens; token t wants experts t and t + 1.
#include <distwrap/distwrap.h>
#include <distwrap/moe.h>

#include <iostream>
#include <vector>

namespace dw = distwrap;

absl::Status run() {
  if (auto session = dw::init_process_group(); !session.ok())
    return session.status();
  const int me = dw::get_rank(), n = dw::get_world_size();
  const std::vector<int> ids = {0, 1 % n, 1 % n, 2 % n};
  const int64_t slots[] = {2, 2};
  auto plan =
      dw::moe_plan(dw::TensorView(ids.data(), slots), {.num_experts = n});
  if (!plan.ok()) return plan.status();

  const std::vector<float> x = {10.0f * float(me), 10.0f * float(me) + 1};
  std::vector<float> rows(size_t(plan->recv_rows())), out(2);
  auto sent = dw::moe_dispatch(*plan, dw::TensorView(x), dw::TensorView(rows));
  if (!sent.ok()) return sent.status();
  for (float& row : rows) row *= float(me + 1);  // the expert
  auto got = dw::moe_combine(*plan, dw::TensorView(rows), dw::TensorView(out));
  if (!got.ok()) return got.status();
  std::cout << out[0] << " " << out[1] << "\n";
  return dw::destroy_process_group();
}

int main() {
  const absl::Status status = run();
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
