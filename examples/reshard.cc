// A trainer's weights go to an inference engine: from four ranks, two of which
// each hold half of the rows, to three other ranks, each with a third.
#include <distwrap/distwrap.h>
#include <distwrap/redistribute.h>

#include <iostream>
#include <numeric>
#include <vector>

namespace dw = distwrap;

absl::Status reshard() {
  const dw::MeshShape dp2_tp2{.sizes = {2, 2}, .names = {"dp", "tp"}};
  const dw::MeshShape tp3{.sizes = {3}, .names = {"tp"}};
  const auto trainer = dw::DeviceMesh::create(dp2_tp2, {0, 1, 2, 3});
  if (!trainer.ok()) return trainer.status();
  const auto engine = dw::DeviceMesh::create(tp3, {4, 5, 6});
  if (!engine.ok()) return engine.status();

  const std::vector<int64_t> whole = {6, 4};
  const auto from = dw::Layout::parse(dp2_tp2, "R,S(0)");
  const auto to = dw::Layout::parse(tp3, "S(0)");
  std::vector<float> trained, weights;
  if (trainer->rank() >= 0) {
    trained.resize(12);
    const int half = int(trainer->coordinate()[1]);
    std::iota(trained.begin(), trained.end(), float(12 * half));
  }
  if (engine->rank() >= 0) weights.resize(8);

  // Each engine gets its rows from whoever has them, spread over the replicas.
  if (absl::Status status = dw::redistribute_between(
          *engine, dw::TensorView(weights), **to, *trainer,
          dw::TensorView(trained), **from, whole);
      !status.ok())
    return status;
  if (engine->rank() >= 0)
    std::cout << "engine " << engine->rank() << ": " << weights.front()
              << " to " << weights.back() << std::endl;
  return absl::OkStatus();
}

int main() {
  absl::Status status = dw::init_process_group().status();
  if (status.ok()) status = reshard();
  status.Update(dw::destroy_process_group());
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
