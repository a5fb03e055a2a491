// A pipeline: each rank is a stage and holds one micro-batch at a time. In
// every tick all stages pass theirs on at once, in one batch of messages.
#include <distwrap/distwrap.h>

#include <iostream>
#include <utility>
#include <vector>

namespace dw = distwrap;

constexpr int kMicroBatches = 6;

int main() {
  absl::Status status = dw::init_process_group().status();
  const int stage = dw::get_rank(), stages = dw::get_world_size();
  std::vector<float> now(1024), next(1024);
  for (int tick = 0; status.ok() && tick < kMicroBatches + stages - 1; ++tick) {
    const auto is_one = [](int batch) {
      return batch >= 0 && batch < kMicroBatches;
    };
    const int batch = tick - stage, coming = batch + 1;
    std::vector<dw::P2POp> ops;
    if (is_one(batch)) {
      if (stage == 0) now.assign(now.size(), float(batch));
      for (float& x : now) x = 2 * x + float(stage);  // the work of a stage
      if (stage == stages - 1)
        std::cout << "batch " << batch << ": " << now.front() << std::endl;
      else
        ops.push_back({.kind = dw::P2POp::Kind::kIsend,
                       .tensor = dw::TensorView(now),
                       .peer = dw::Peer::group(stage + 1)});
    }
    if (stage > 0 && is_one(coming))
      ops.push_back({.kind = dw::P2POp::Kind::kIrecv,
                     .tensor = dw::TensorView(next),
                     .peer = dw::Peer::group(stage - 1)});
    const auto works = dw::batch_isend_irecv(ops);
    status = works.ok() ? dw::wait_all(*works) : works.status();
    std::swap(now, next);
  }
  status.Update(dw::destroy_process_group());
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
