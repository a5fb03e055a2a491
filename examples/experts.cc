// Each rank has one expert and two tokens; token t wants experts t and t + 1.
#include <distwrap/distwrap.h>
#include <distwrap/moe.h>

#include <iostream>
#include <vector>

using namespace distwrap;

int main() {
  const Session session = init_process_group().value();
  const int me = get_rank(), n = get_world_size();
  const std::vector<int> ids = {0, 1 % n, 1 % n, 2 % n};
  const int64_t slots[] = {2, 2};
  const TensorView routing(ids.data(), slots);
  const MoePlan plan = moe_plan(routing, {.num_experts = n}).value();
  const std::vector<float> x = {10.0f * float(me), 10.0f * float(me) + 1};
  std::vector<float> rows(size_t(plan.recv_rows())), out(2);
  if (!moe_dispatch(plan, TensorView(x), TensorView(rows)).ok()) return 1;
  for (float& row : rows) row *= float(me + 1);  // the expert
  if (!moe_combine(plan, TensorView(rows), TensorView(out)).ok()) return 1;
  std::cout << out[0] << " " << out[1] << "\n";
  return destroy_process_group().ok() ? 0 : 1;
}
