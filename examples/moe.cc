// A layer of experts learns, with a router and all gradients. The batch has
// four micro-batches. On four ranks each takes one of them; a single rank takes
// them one after the other, and ends with the same bits.
#include <distwrap/distwrap.h>
#include <distwrap/moe.h>

#include <cmath>
#include <cstring>
#include <iostream>
#include <random>
#include <vector>

namespace dw = distwrap;
using Floats = std::vector<float>;
using dw::TensorView;

constexpr int kExperts = 4, kTopK = 2, kParts = 4, kSteps = 80;
constexpr int64_t kTokens = 32,
                  kWidth = 8;  // sizes of a micro-batch and of a token

size_t at(int64_t i) { return static_cast<size_t>(i); }

TensorView rows(Floats& data, int64_t count) {
  static thread_local int64_t shapes[16][2];
  static thread_local int next = 0;
  int64_t* const shape = shapes[next++ % 16];  // borrowed by the call
  shape[0] = count;
  shape[1] = kWidth;
  return TensorView(data.data(), absl::MakeConstSpan(shape, 2));
}

struct Layer {
  Floats router = Floats(kExperts * kWidth);   // on all ranks
  Floats experts = Floats(kExperts * kWidth);  // each rank uses its own
};

// Adds the gradients of one micro-batch.
absl::Status learn(const Layer& layer, int part, int per_rank,
                   Floats* router_sum, Floats* expert_sum, float* loss) {
  std::mt19937 random(static_cast<unsigned>(part));
  std::uniform_real_distribution<float> uniform(-1, 1);
  Floats x(at(kTokens * kWidth)), y(x.size()), back(x.size());
  for (float& value : x) value = uniform(random);

  // The router: the two experts with the highest scores, weighted by softmax.
  std::vector<int> ids(at(kTokens * kTopK));
  Floats weights(ids.size());
  for (int64_t t = 0; t < kTokens; ++t) {
    float scores[kExperts] = {};
    for (int e = 0; e < kExperts; ++e)
      for (int64_t h = 0; h < kWidth; ++h)
        scores[e] += layer.router[at(e * kWidth + h)] * x[at(t * kWidth + h)];
    int best = 0, second = -1;
    for (int e = 1; e < kExperts; ++e)
      if (scores[e] > scores[best]) best = e;
    for (int e = 0; e < kExperts; ++e)
      if (e != best && (second < 0 || scores[e] > scores[second])) second = e;
    const float p = 1 / (1 + std::exp(scores[second] - scores[best]));
    ids[at(2 * t)] = best, ids[at(2 * t + 1)] = second;
    weights[at(2 * t)] = p, weights[at(2 * t + 1)] = 1 - p;
  }
  const int64_t slots[] = {kTokens, kTopK};
  auto plan = dw::moe_plan(
      TensorView(ids.data(), slots),
      {.num_experts = kExperts, .layout = dw::MoeLayout::kExpertMajor});
  if (!plan.ok()) return plan.status();
  const int64_t m = plan->recv_rows();
  Floats in(at(m * kWidth)), out(in.size()), grad(in.size());
  Floats row_weights(at(m)), weight_grads(at(m)), back_weights(ids.size());

  // Forward: each expert multiplies by its numbers.
  const dw::SideChannel side[] = {dw::SideChannel::weights(
      TensorView(weights.data(), slots), TensorView(row_weights))};
  absl::Status status =
      dw::moe_dispatch(*plan, rows(x, kTokens), rows(in, m), side).status();
  const auto* offsets =
      static_cast<const int64_t*>(plan->expert_offsets().data());
  const auto each_row = [&](const auto& visit) {
    for (int b = 0; b < per_rank; ++b)
      for (int64_t i = offsets[b]; i < offsets[b + 1]; ++i)
        for (int64_t h = 0; h < kWidth; ++h)
          visit(i, at(i * kWidth + h),
                at((dw::get_rank() * per_rank + b) * kWidth + h));
  };
  each_row(
      [&](int64_t, size_t n, size_t w) { out[n] = layer.experts[w] * in[n]; });
  status.Update(dw::moe_combine(*plan, rows(out, m), rows(y, kTokens),
                                {.weighting = dw::MoeWeighting::kAtExpert,
                                 .weights = TensorView(row_weights),
                                 .order = dw::MoeOrder::kTopK})
                    .status());

  // Backward of a squared error: the layer learns to negate.
  for (size_t n = 0; n < y.size(); ++n) {
    const float error = y[n] + x[n];
    *loss += error * error;
    y[n] = 2 * error;
  }
  status.Update(
      dw::moe_dispatch(*plan, rows(y, kTokens), rows(grad, m)).status());
  each_row([&](int64_t i, size_t n, size_t w) {
    (*expert_sum)[w] += row_weights[at(i)] * grad[n] * in[n];
    weight_grads[at(i)] += grad[n] * out[n];
    grad[n] = row_weights[at(i)] * layer.experts[w] * grad[n];
  });
  const dw::CombineOptions::Return returns[] = {
      {TensorView(weight_grads), TensorView(back_weights.data(), slots)}};
  status.Update(
      dw::moe_combine(*plan, rows(grad, m), rows(back, kTokens),
                      {.order = dw::MoeOrder::kTopK, .returns = returns})
          .status());
  for (int64_t t = 0; t < kTokens; ++t) {
    const float p = weights[at(2 * t)];
    const float score_grad =
        p * (1 - p) * (back_weights[at(2 * t)] - back_weights[at(2 * t + 1)]);
    for (const int64_t k : {0, 1})
      for (int64_t h = 0; h < kWidth; ++h)
        (*router_sum)[at(ids[at(2 * t + k)] * kWidth + h)] +=
            (k == 0 ? score_grad : -score_grad) * x[at(t * kWidth + h)];
  }
  return status;
}

absl::Status run() {
  if (auto session = dw::init_process_group(); !session.ok())
    return session.status();
  const int rank = dw::get_rank(), ranks = dw::get_world_size();
  const int per_rank = kExperts / ranks, parts = kParts / ranks;
  Layer layer;
  std::mt19937 random(99);
  std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
  for (Floats* numbers : {&layer.router, &layer.experts})
    for (float& number : *numbers) number = uniform(random);

  absl::Status status;
  Floats all(at(kParts) * (layer.router.size() + 1));
  float loss = 0;
  for (int step = 0; step < kSteps && status.ok(); ++step) {
    // The gradients of the router and the loss of each micro-batch, and those
    // of the experts over all of them: rows come by source, then token.
    Floats mine, expert_sum(layer.experts.size());
    for (int p = 0; p < parts && status.ok(); ++p) {
      Floats router_sum(layer.router.size());
      float part_loss = 0;
      status = learn(layer, rank * parts + p, per_rank, &router_sum,
                     &expert_sum, &part_loss);
      mine.insert(mine.end(), router_sum.begin(), router_sum.end());
      mine.push_back(part_loss);
    }
    if (!status.ok()) break;
    status =
        dw::all_gather_into_tensor(TensorView(all), TensorView(mine)).status();
    loss = 0;
    for (size_t p = 0, n = 0; p < kParts; ++p) {
      for (float& number : layer.router) number -= 0.004f * all[n++];
      loss += all[n++];
    }
    for (size_t w = 0; w < layer.experts.size(); ++w)
      layer.experts[w] -= 0.004f * expert_sum[w];
  }
  uint32_t bits;
  memcpy(&bits, &loss, sizeof bits);
  if (rank == 0)
    std::cout << "loss " << loss << " bits " << std::hex << bits << "\n";
  status.Update(dw::destroy_process_group());
  return status;
}

int main() {
  const absl::Status status = run();
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
