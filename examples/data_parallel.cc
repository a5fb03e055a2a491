// Data-parallel training: every rank has the whole model and its share of the
// data; gradients are summed over the ranks before each step.
#include <distwrap/distwrap.h>

#include <cmath>
#include <iostream>
#include <random>
#include <vector>

namespace dw = distwrap;
using Vector = std::vector<double>;

constexpr int kHidden = 16, kSamples = 512, kSteps = 1000;

// One layer of tanh and a logit: is (x, y) inside the ring? Adds the gradient
// of one sample's log-loss to `sum`, and the loss behind it.
void learn(const Vector& w, double x, double y, bool inside, Vector& sum) {
  double hidden[kHidden], logit = w.back();
  for (size_t h = 0; h < kHidden; ++h) {
    hidden[h] = std::tanh(w[4 * h] * x + w[4 * h + 1] * y + w[4 * h + 2]);
    logit += w[4 * h + 3] * hidden[h];
  }
  const double p = 1 / (1 + std::exp(-logit)), error = p - inside;
  for (size_t h = 0; h < kHidden; ++h) {
    const double back = error * w[4 * h + 3] * (1 - hidden[h] * hidden[h]);
    sum[4 * h] += back * x;
    sum[4 * h + 1] += back * y;
    sum[4 * h + 2] += back;
    sum[4 * h + 3] += error * hidden[h];
  }
  sum[4 * kHidden] += error;
  sum.back() -= std::log(inside ? p : 1 - p);
}

int main() {
  absl::Status status = dw::init_process_group().status();
  const auto rank = dw::get_rank(), ranks = dw::get_world_size();
  std::mt19937 random(1);  // equal numbers on every rank
  std::uniform_real_distribution<double> uniform(-2, 2);
  Vector w(4 * kHidden + 1), points(2 * kSamples), sum;
  for (Vector* values : {&w, &points})
    for (double& value : *values) value = uniform(random);
  for (int step = 0; step < kSteps && status.ok(); ++step) {
    sum.assign(w.size() + 1, 0);
    for (size_t i = size_t(rank); i < kSamples; i += size_t(ranks)) {
      const double x = points[2 * i], y = points[2 * i + 1], r = x * x + y * y;
      learn(w, x, y, r > 0.5 && r < 2.5, sum);
    }
    status = dw::all_reduce(dw::TensorView(sum)).status();
    for (size_t i = 0; i < w.size(); ++i) w[i] -= 2 * sum[i] / kSamples;
  }
  std::cout.precision(12);
  if (rank == 0)
    std::cout << "loss " << sum.back() / kSamples << " on " << ranks
              << " ranks\n";
  status.Update(dw::destroy_process_group());
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
